"""Numbered writes are targeted as MongoDB's own router code does it.

The un-numbered form of the same statement goes through the in-process router of a shard server: the same answer must
come, refusals word for word.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database

from clusters.local import LocalCluster

pytestmark = pytest.mark.live

SET = {"$set": {"z": 1}}
GERMAN, SIMPLE = {"locale": "de"}, {"locale": "simple"}


@pytest.fixture(scope="module")
async def shapes(sharded: LocalCluster) -> AsyncIterator[Database[dict[str, Any]]]:
    """Collections `range`, `nested`, `hashed`, `prefix` and `german`, each on both shards, with the same documents."""
    with MongoClient[dict[str, Any]](sharded.uri) as client:
        database = client[f"shapes_{uuid.uuid4().hex[:8]}"]
        admin: Database[dict[str, Any]] = client.admin
        admin.command("enableSharding", database.name, primaryShard="shard0")
        database.create_collection("german", collation=GERMAN)
        keys: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
            "range": ({"region": 1}, {"region": 0}),
            "german": ({"region": 1}, {"region": 0}),
            "nested": ({"a.b": 1, "region": 1}, {"a.b": 0, "region": 5}),
            "hashed": ({"region": "hashed"}, None),
            "prefix": ({"region": 1, "x": "hashed"}, {"region": 5, "x": Int64(0)}),
        }
        for name, (key, split) in keys.items():
            simple = {"collation": SIMPLE} if name == "german" else {}
            if simple:
                database[name].create_index([("region", 1)], collation=SIMPLE)
            admin.command({"shardCollection": f"{database.name}.{name}", "key": key, **simple})
            if split is not None:
                admin.command("moveRange", f"{database.name}.{name}", min=split, toShard="shard1")
            numbers = [{"_id": n, "region": n, "x": n, "a": {"b": n}} for n in range(-8, 9)]
            database[name].insert_many([*numbers, {"_id": "text", "region": "text"}, {"_id": "none"}])
        yield database
        client.drop_database(database.name)


NUMBERS = itertools.count(1000)
"""Above the driver's own: it puts its session into every command, and counts in it."""


def both_ways(
    database: Database[dict[str, Any]], name: str, kind: str, statements: Sequence[Mapping[str, Any]]
) -> list[tuple[int, list[Any]]]:
    """(n, write errors) of an unordered batch, numbered and un-numbered."""
    field = {"update": "updates", "delete": "deletes"}[kind]
    answers = []
    for number in ({"txnNumber": Int64(next(NUMBERS))}, {}):
        command: dict[str, Any] = {kind: name, field: list(statements), "ordered": False, **number}
        reply = database.command(command)
        answers.append((reply["n"], reply.get("writeErrors", [])))
    return answers


QUERIES: list[dict[str, Any]] = [
    {},
    {"_id": 1},
    {"_id": "text"},
    {"_id": 99, "x": 3},
    {"_id": {"$in": [1]}},
    {"_id": {"$gt": 1}},
    {"region": 5},
    {"region": "text"},
    {"region": None},
    {"region": [1]},
    {"region": {"a": [1]}},
    {"region": {"$lt": 0}},
    {"region": {"$lt": -1}},
    {"region": {"$gte": 0}},
    {"region": {"$in": [5, 6]}},
    {"region": {"$in": [5, -6]}},
    {"region": {"$in": [5]}},
    {"region": {"$all": [5]}},
    {"region": {"$ne": 5}},
    {"region": {"$exists": False}},
    {"region": {"$gt": "a"}},
    {"region": {"$gt": 5, "$lt": 1}},
    {"region": {"$eq": 5, "$gt": 3}},
    {"region": {"$not": {"$gt": -5}}},
    {"region": {"$mod": [4, 1]}},
    {"region": ObjectId("0123456789abcdef01234567")},
    {"$or": [{"region": 5}, {"region": 6}]},
    {"$or": [{"region": 5}]},
    {"$and": [{"region": 5}, {"region": -6}]},
    {"$nor": [{"region": 5}]},
    {"region": 5, "$or": [{"x": 1}, {"x": 2}]},
    {"a.b": 1},
    {"a": {"b": 1}},
    {"a": {"b": 1}, "region": 1},
    {"a": {"c": 1}, "region": 1},
    {"a.b": 0, "region": {"$gt": 6}},
    {"a.b": 0, "region": {"$lt": 6}},
    {"a.b": {"$gt": 0}, "region": 7},
    {"region": 5, "x": 5},
    {"region": 5, "x": {"$gt": 5}},
    {"region": {"$gt": 5}, "x": 7},
]


@pytest.mark.parametrize("name", ["range", "german", "nested", "hashed", "prefix"])
def test_a_numbered_statement_is_answered_as_its_un_numbered_form(shapes: Database[dict[str, Any]], name: str) -> None:
    """Many statements in two batches, none of which changes what another sees."""
    updates: list[dict[str, Any]] = []
    deletes: list[dict[str, Any]] = []
    for query, collation in itertools.product(QUERIES, ({}, {"collation": GERMAN}, {"collation": SIMPLE})):
        nothing = {"$and": [query, {"nothing": "here"}]}
        updates += [
            {"q": query, "u": SET, **collation},
            {"q": query, "u": [SET], **collation},
            {"q": nothing, "u": {"region": 7, "x": 7}, **collation},
            {"q": nothing, "u": {"region": "a"}, **collation},
        ]
        deletes.append({"q": nothing, "limit": 1, **collation})
        if not {"region", "$and", "$or"} & set(query):  # what names a place would insert there
            updates.append({"q": nothing, "u": SET, "upsert": True, **collation})
    for kind, statements in (("update", updates), ("delete", deletes)):
        ours, theirs = both_ways(shapes, name, kind, statements)
        assert ours == theirs


numbers = st.one_of(st.integers(-9, 9), st.sampled_from([-5.5, 0.5, Int64(3)]))
conditions = st.one_of(
    numbers,
    st.sampled_from(["text", None, True]),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), numbers, min_size=1, max_size=2),
    st.lists(numbers, min_size=1, max_size=3).map(lambda many: {"$in": many}),
)
simple = st.dictionaries(st.sampled_from(["region", "x", "_id", "a.b"]), conditions, min_size=1, max_size=3)
together = st.one_of(simple, st.lists(simple, min_size=1, max_size=2).map(lambda many: {"$and": many}))
either = st.tuples(simple, st.lists(simple, min_size=1, max_size=3)).map(lambda pair: {**pair[0], "$or": pair[1]})
cases = st.one_of(
    st.tuples(st.sampled_from(["range", "nested", "hashed", "prefix"]), together),
    # On a compound key the server's planner narrows some alternatives that the router does not, and the reverse.
    st.tuples(st.just("range"), either),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases)
def test_a_random_query_targets_as_in_its_un_numbered_form(
    shapes: Database[dict[str, Any]], case: tuple[str, dict[str, Any]]
) -> None:
    name, query = case
    ours, theirs = both_ways(shapes, name, "update", [{"q": query, "u": SET}])
    assert ours == theirs
