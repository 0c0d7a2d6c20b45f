"""Which shard an operation goes to, from tables; no cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from bson_values import comparable, repeatedly
from clusters.router.catalog import Table, build_table
from clusters.router.hashing import hashed
from clusters.router.order import document_key, value_key
from clusters.router.query_ranges import shards_of_query
from clusters.router.shard_key import of_query
from clusters.router.targeting import (
    NotTargeted,
    delete_shards,
    find_and_modify_shard,
    insert_shard,
    update_shards,
)
from clusters.wire.message import encode_document

EPOCH, STAMP, LAST = ObjectId(), Timestamp(7, 1), Timestamp(0, 0)


def table(key: Mapping[str, int | str], *splits: tuple[tuple[Any, ...], str], first: str = "a", **fields: Any) -> Table:
    """`first` owns what lies below the first split; each split names who owns from there on."""
    low, high = tuple(MinKey() for _ in key), tuple(MaxKey() for _ in key)
    edges = [(low, first), *splits]
    chunks = [
        {
            "min": dict(zip(key, edge, strict=True)),
            "max": dict(zip(key, edges[place + 1][0] if place + 1 < len(edges) else high, strict=True)),
            "shard": shard,
            "lastmod": Timestamp(place + 1, 0),
        }
        for place, (edge, shard) in enumerate(edges)
    ]
    collection = {"_id": "app.c", "uuid": 1, "key": dict(key), "lastmodEpoch": EPOCH, "timestamp": STAMP, **fields}
    built = build_table(collection, chunks)
    assert built is not None
    return built


REGION = table({"region": 1}, ((0,), "b"), ((100,), "c"))
COMPOUND = table({"x": 1, "y": 1}, ((5, 5), "b"))
NESTED = table({"a.b": 1}, ((0,), "b"))
ONE = table({"region": 1})
ID = table({"_id": 1}, ((100,), "b"))
GERMAN = table({"region": 1}, (("m",), "b"), collation={"locale": "simple"}, defaultCollation={"locale": "de"})


@pytest.mark.parametrize(
    ("where", "document", "shard"),
    [
        (REGION, {"region": -1}, "a"),
        (REGION, {"region": 0}, "b"),
        (REGION, {"region": 99.5}, "b"),
        (REGION, {"region": 100}, "c"),
        (REGION, {"region": "text"}, "c"),
        (REGION, {"region": None}, "a"),
        (REGION, {"other": 1}, "a"),
        (COMPOUND, {"x": 5, "y": 4}, "a"),
        (COMPOUND, {"x": 5, "y": 5}, "b"),
        (COMPOUND, {"y": 9, "x": 5}, "b"),
        (COMPOUND, {"x": 5}, "a"),
        (NESTED, {"a": {"b": 1}}, "b"),
        (NESTED, {"a": 1}, "a"),
    ],
)
def test_a_new_document_goes_to_the_owner_of_its_key(where: Table, document: dict[str, Any], shard: str) -> None:
    assert insert_shard(where, encode_document({"_id": 1, "z": [1], **document})) == shard


@pytest.mark.parametrize(
    ("where", "document"), [(REGION, {"region": [1]}), (NESTED, {"a": [{"b": 1}]}), (NESTED, {"a": {"b": [1]}})]
)
def test_an_array_in_the_shard_key_is_refused_as_a_mongos_does(where: Table, document: dict[str, Any]) -> None:
    with pytest.raises(NotTargeted, match="array") as caught:
        insert_shard(where, encode_document(document))
    assert caught.value.code == 61


@pytest.mark.parametrize(
    ("where", "query", "expected"),
    [
        (REGION, {"region": 5}, (5,)),
        (REGION, {"region": {"$eq": 5}, "x": {"$gt": 1}}, (5,)),
        (REGION, {"$and": [{"x": 1}, {"$and": [{"region": 5}]}]}, (5,)),
        (REGION, {"region": {"a": 1}}, ({"a": 1},)),
        (REGION, {"region": None}, (None,)),
        (REGION, {}, None),
        (REGION, {"_id": 5}, None),
        (REGION, {"region": {"$gt": 5}}, None),
        (REGION, {"region": {"$in": [5]}}, (5,)),
        (REGION, {"region": {"$in": [5, 6]}}, None),
        (REGION, {"region": {"$all": [5]}}, (5,)),
        (REGION, {"$and": [{"region": 5}, {"region": 6}]}, None),
        (REGION, {"$or": [{"region": 5}, {"region": 6}]}, None),
        (REGION, {"region": [5]}, None),
        (REGION, {"region": Regex("^a")}, None),
        (REGION, {"$or": [{"region": 5}]}, (5,)),
        (REGION, {"$nor": [{"region": 5}]}, None),
        (COMPOUND, {"x": 1}, None),
        (COMPOUND, {"y": 1, "x": 2}, (2, 1)),
        (NESTED, {"a.b": 3}, (3,)),
        (NESTED, {"a": {"b": 3}}, (3,)),
        (NESTED, {"a": {"c": 3}}, None),
        (NESTED, {"a": {"b": 3}, "a.b": 3}, None),
    ],
)
def test_a_query_fixes_the_shard_key_by_equality_only(where: Table, query: dict[str, Any], expected: Any) -> None:
    assert of_query(where, query) == expected


@pytest.mark.parametrize(
    ("where", "query", "shards"),
    [
        (REGION, {}, "abc"),
        (REGION, {"x": 5}, "abc"),
        (REGION, {"region": {"$gte": 100}}, "c"),
        (REGION, {"region": {"$gt": 99}}, "bc"),
        (REGION, {"region": {"$lt": 0}}, "ab"),  # the end counts as included, as in a mongos
        (REGION, {"region": {"$lt": -0.5}}, "a"),
        (REGION, {"region": {"$gt": 5, "$lt": 9}}, "b"),
        (REGION, {"region": {"$gt": 9, "$lt": 5}}, "a"),  # nothing matches: asked of the first
        (REGION, {"region": {"$gt": "a"}}, "c"),
        (REGION, {"region": {"$gte": None}}, "a"),
        (REGION, {"region": {"$exists": False}}, "a"),
        (REGION, {"region": {"$in": [5, 150]}}, "bc"),
        (REGION, {"region": {"$in": [5, Regex("^a")]}}, "abc"),
        (REGION, {"region": {"$ne": 5}}, "abc"),
        (REGION, {"region": {"$not": {"$lt": 5}}}, "abc"),
        (REGION, {"$or": [{"region": 5}, {"region": 50}]}, "b"),
        (REGION, {"$or": [{"region": 5}, {"x": 1}]}, "abc"),
        (REGION, {"$and": [{"region": {"$gt": 5}}, {"$or": [{"region": {"$lt": 9}}, {"region": 7}]}]}, "b"),
        (COMPOUND, {"x": 4}, "a"),
        (COMPOUND, {"x": 5}, "ab"),
        (COMPOUND, {"x": 5, "y": {"$gt": 5}}, "b"),
        (COMPOUND, {"x": {"$lt": 5}, "y": 7}, "ab"),
        (COMPOUND, {"y": 1}, "ab"),
    ],
)
def test_a_query_goes_to_the_shards_whose_ranges_it_touches(where: Table, query: dict[str, Any], shards: str) -> None:
    assert shards_of_query(where, query, simple=True) == tuple(shards)


def test_under_a_collation_a_string_names_no_shard_and_a_number_does() -> None:
    german = {"locale": "de"}
    for where, fields in ((REGION, {"collation": german}), (GERMAN, {})):
        with pytest.raises(NotTargeted):
            delete_shards(where, {"q": {"region": "x"}, "limit": 1, **fields})
        assert len(delete_shards(where, {"q": {"region": 5}, "limit": 1, **fields})) == 1
    for where in (REGION, GERMAN):
        assert delete_shards(where, {"q": {"region": "x"}, "limit": 1, "collation": {"locale": "simple"}})
    broadcast = {"q": {"_id": "x"}, "u": {"$set": {"a": 1}}}
    assert len(update_shards(GERMAN, {**broadcast, "collation": german})) == 2  # the `_id` index has that collation
    with pytest.raises(NotTargeted):
        update_shards(REGION, {**broadcast, "collation": german})


HASHED = table({"region": "hashed"}, ((0,), "b"))
PREFIX = table({"x": 1, "y": "hashed"}, ((5, hashed(7)), "b"))


def test_a_hashed_field_goes_by_its_hash() -> None:
    """1 hashes above zero, -1.9 too as it hashes like -1; null below."""
    for value in (1, -1, -1.9, None, "a", 2.5, {"a": [1]}):
        shard = "b" if hashed(value) >= 0 else "a"
        assert insert_shard(HASHED, encode_document({"region": value})) == shard
        assert update_shards(HASHED, {"q": {"region": value}, "u": {"$set": {"a": 1}}}) == (shard,)
        assert find_and_modify_shard(HASHED, {"query": {"region": value}}) == shard
    assert insert_shard(HASHED, encode_document({"other": 1})) == ("b" if hashed(None) >= 0 else "a")
    assert shards_of_query(HASHED, {"region": {"$gt": 1}}, simple=True) == ("a", "b")
    assert shards_of_query(HASHED, {"region": {"$in": [1, -1]}}, simple=True) == ("b",)
    with pytest.raises(NotTargeted, match="could not extract"):
        update_shards(HASHED, {"q": {"region": {"$gt": 1}}, "u": {"$set": {"a": 1}}, "upsert": True})


def test_a_hashed_field_behind_a_range_field_refines_its_points() -> None:
    assert insert_shard(PREFIX, encode_document({"x": 5, "y": 7})) == "b"
    assert insert_shard(PREFIX, encode_document({"x": 5, "y": None})) == ("b" if hashed(None) > hashed(7) else "a")
    assert shards_of_query(PREFIX, {"x": {"$gt": 6}}, simple=True) == ("b",)
    assert shards_of_query(PREFIX, {"x": 5}, simple=True) == ("a", "b")


UPDATES: list[tuple[Table, dict[str, Any], tuple[str, ...] | int]] = [
    (REGION, {"q": {"region": 5}, "u": {"$set": {"a": 1}}}, ("b",)),
    (REGION, {"q": {"region": 5}, "u": {"a": 1}}, ("b",)),
    (REGION, {"q": {"region": 5}, "u": [{"$set": {"a": 1}}]}, ("b",)),
    (REGION, {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}, ("a", "b", "c")),
    (REGION, {"q": {"_id": 1}, "u": [{"$set": {"a": 1}}]}, ("a", "b", "c")),
    (REGION, {"q": {"_id": 1}, "u": {"region": 150}}, ("c",)),
    (REGION, {"q": {"x": 1}, "u": {"region": 150}}, ("c",)),
    (REGION, {"q": {"x": 1}, "u": {}}, ("a",)),
    (ONE, {"q": {"x": 1}, "u": {"$set": {"a": 1}}}, ("a",)),
    (REGION, {"q": {"region": 5}, "u": {"$set": {"a": 1}}, "upsert": True}, ("b",)),
    (REGION, {"q": {"region": {"$gt": 100}}, "u": {"$set": {"a": 1}}}, ("c",)),
    (REGION, {"q": {"_id": 1, "region": {"$gt": 50}}, "u": {"$set": {"a": 1}}}, ("b", "c")),
    (COMPOUND, {"q": {"_id": 1}, "u": {"x": 5, "y": 5}}, ("b",)),
    (ID, {"q": {"x": 1}, "u": {"_id": 100}}, ("b",)),
    (REGION, {"q": {"x": 1}, "u": {"$set": {"a": 1}}}, 72),
    (REGION, {"q": {"_id": {"$gt": 1}}, "u": {"$set": {"a": 1}}}, 72),
    (REGION, {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "upsert": True}, 61),
    (REGION, {"q": {"_id": 1}, "u": {"region": 5}, "upsert": True}, 61),
    (REGION, {"q": {"region": 5}, "u": {"$set": {"a": 1}}, "multi": True}, 72),
    (REGION, {"q": {"x": 1}, "u": {"region": [5]}}, 61),
]

DELETES: list[tuple[Table, dict[str, Any], tuple[str, ...] | int]] = [
    (REGION, {"q": {"region": 5}, "limit": 1}, ("b",)),
    (REGION, {"q": {"_id": 5}, "limit": 1}, ("a", "b", "c")),
    (REGION, {"q": {"_id": 5, "region": {"$gt": 100}}, "limit": 1}, ("c",)),
    (ONE, {"q": {}, "limit": 1}, 61),
    (REGION, {"q": {"x": 5}, "limit": 1}, 61),
    (REGION, {"q": {"region": {"$gt": 100}}, "limit": 1}, 61),
    (REGION, {"q": {"region": 5}, "limit": 0}, 72),
]


@pytest.mark.parametrize(
    ("targets", "where", "statement", "expected"),
    [(update_shards, *one) for one in UPDATES] + [(delete_shards, *one) for one in DELETES],
)
def test_a_numbered_statement_goes_to_its_owner_to_all_by_id_or_nowhere(
    targets: Callable[[Table, Mapping[str, Any]], tuple[str, ...]],
    where: Table,
    statement: dict[str, Any],
    expected: tuple[str, ...] | int,
) -> None:
    if isinstance(expected, int):
        with pytest.raises(NotTargeted) as caught:
            targets(where, statement)
        assert caught.value.code == expected
    else:
        assert targets(where, statement) == expected


def test_find_and_modify_wants_the_shard_key_even_beside_an_id() -> None:
    assert find_and_modify_shard(REGION, {"query": {"region": 5}}) == "b"
    for query in ({"_id": 5}, {"region": {"$gt": 100}}, {}):
        with pytest.raises(NotTargeted, match="must contain the shard key"):
            find_and_modify_shard(REGION, {"query": query})


def test_a_shard_version_is_the_highest_of_the_shards_chunks_and_zero_without_any() -> None:
    where = table({"k": 1}, ((0,), "b"), ((9,), "a"))
    assert where.shard_version("a") == {"t": STAMP, "e": EPOCH, "v": Timestamp(3, 0)}
    assert where.shard_version("b")["v"] == Timestamp(2, 0)
    assert where.shard_version("z")["v"] == Timestamp(0, 0)
    assert where.shards == ("a", "b")


def test_chunks_that_leave_a_gap_are_no_table() -> None:
    collection = {"_id": "app.c", "uuid": 1, "key": {"k": 1}, "lastmodEpoch": EPOCH, "timestamp": STAMP}
    low = {"min": {"k": MinKey()}, "max": {"k": 0}, "shard": "a", "lastmod": LAST}
    gap = {"min": {"k": 1}, "max": {"k": MaxKey()}, "shard": "b", "lastmod": LAST}
    full = {**gap, "min": {"k": 0.0}}
    assert build_table(collection, []) is None
    assert build_table(collection, [low]) is None
    assert build_table(collection, [gap, low]) is None
    assert build_table(collection, [full, low]) is not None


@repeatedly
@given(st.lists(comparable, min_size=1, max_size=6), comparable)
def test_the_owner_found_by_bisection_is_the_chunk_that_spans_the_value(splits: list[Any], value: Any) -> None:
    by_key = {value_key(one): one for one in splits if not isinstance(one, MinKey | MaxKey)}
    edges = [by_key[one] for one in sorted(by_key)]
    where = table({"k": 1}, *(((one,), f"s{place}") for place, one in enumerate(edges)), first="first")
    below = [place for place, one in enumerate(edges) if value_key(one) <= value_key(value)]
    assert where.owner((value,)) == (f"s{below[-1]}" if below else "first")


@repeatedly
@given(st.lists(st.tuples(comparable, comparable), min_size=2, max_size=4))
def test_compound_keys_are_ordered_field_by_field(pairs: list[tuple[Any, Any]]) -> None:
    by_field = sorted(pairs, key=lambda one: (value_key(one[0]), value_key(one[1])))
    whole = sorted(pairs, key=document_key)
    assert [document_key(one) for one in whole] == [document_key(one) for one in by_field]
