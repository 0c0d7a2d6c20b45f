"""Reads: what a driver sends, with every option, through the router and to a plain replica set, for the same answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest
from bson.int64 import Int64
from bson.regex import Regex

from clusters.local import LocalCluster
from conformance import Case, Place, by_kind, comparable, compare, differing, places

pytestmark = pytest.mark.live

COUNT: Final = 24
NAMES: Final = ("anna", "Anna", "bo", "Bö", "cy", "dö")
CASELESS: Final = {"locale": "en", "strength": 1}
DOCUMENTS: Final[list[dict[str, Any]]] = [
    {
        "_id": n,
        "region": n - COUNT // 2,
        "n": n % 5,
        "name": NAMES[n % len(NAMES)],
        "tags": [n % 3, n % 4, None][: n % 4],
        "item": {"price": n * 1.5, "parts": [{"k": n}, {"k": n + 1}]},
        "place": {"type": "Point", "coordinates": [n * 0.5, n * 0.25]},
        "text": ["one two", "two three", "three four"][n % 3],
    }
    for n in range(COUNT)
]
INDEXES: Final = [
    {"key": {"n": 1}, "name": "n_1"},
    {"key": {"place": "2dsphere"}, "name": "place"},
    {"key": {"text": "text"}, "name": "text"},
    {"key": {"name": 1}, "name": "names", "collation": CASELESS},
]


@pytest.fixture(scope="module")
async def filled(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    async with places(sharded, replica_set) as made:
        for place in made.values():
            for command in (
                {"createIndexes": "orders", "indexes": INDEXES},
                {"insert": "orders", "documents": DOCUMENTS, "writeConcern": {"w": 3}},
                {"insert": "other", "documents": [{"_id": n, "word": f"w{n}"} for n in range(5)]},
                {"create": "view", "viewOn": "orders", "pipeline": [{"$match": {"n": 1}}, {"$unset": ["text"]}]},
            ):
                reply = await place.run(command)
                assert reply["ok"] == 1, (place.kind, reply)
        yield made


def find(name: str, sharded: int | None = None, routed: int | None = None, **options: Any) -> Case:
    command = {"find": "orders", **options}
    return Case(f"find {name}", command, sharded=sharded, routed=routed, sort="sort" not in options)


BY_ID: Final = {"_id": 1}
REFUSED: Final = 20
"""What the router says of what its host would not live through."""

FINDS: Final = [
    find("everything"),
    find("by the shard key", filter={"region": 3}),
    find("by a range of it", filter={"region": {"$gte": -2, "$lt": 2}}),
    find("sorted", sort={"region": -1}),
    find("sorted by two", sort={"n": 1, "_id": -1}),
    find("sorted by a nested field", sort={"item.price": -1}),
    find("skip and limit", sort=BY_ID, skip=5, limit=7),
    find("skip past the end", sort=BY_ID, skip=100),
    find("limit 0", limit=0),
    find("limit below 0", limit=-1),
    find("skip below 0", skip=-1),
    find("single batch", sort=BY_ID, batchSize=4, singleBatch=True),
    find("batchSize 0", sort=BY_ID, batchSize=0),
    find("batchSize 1", sort=BY_ID, batchSize=1),
    find("batchSize below 0", batchSize=-1),
    find("inclusion", projection={"n": 1}),
    find("exclusion", projection={"text": 0, "place": 0}),
    find("a mix of both", projection={"n": 1, "text": 0}),
    find("$slice", sort=BY_ID, projection={"tags": {"$slice": 1}}),
    find("$elemMatch", sort=BY_ID, projection={"item": 1, "tags": {"$elemMatch": {"$eq": 1}}}),
    find("positional", sort=BY_ID, filter={"tags": 2}, projection={"tags.$": 1}),
    find("expressions", sort=BY_ID, projection={"double": {"$multiply": ["$n", 2]}, "constant": "x"}),
    find("sort by a field left out", sort={"item.price": -1}, projection={"_id": 1}),
    find("hint by name", filter={"n": 2}, hint="n_1"),
    find("hint by key", filter={"n": 2}, hint={"n": 1}),
    find("hint $natural", hint={"$natural": 1}),
    find("hint that names none", hint="none"),
    find("min and max", min={"n": 1}, max={"n": 3}, hint={"n": 1}),
    find("min without hint", min={"n": 1}),
    find("returnKey", filter={"n": 2}, hint="n_1", returnKey=True),
    find("collation", filter={"name": "ANNA"}, collation=CASELESS, hint="names"),
    find("collation in sort", sort={"name": 1, "_id": 1}, collation={"locale": "de"}),
    find("unknown collation", collation={"locale": "xx"}),
    find("let", filter={"$expr": {"$eq": ["$n", "$$wanted"]}}, let={"wanted": 3}),
    find("let that is not given", filter={"$expr": {"$eq": ["$n", "$$wanted"]}}),
    find("comment", comment="a comment"),
    find("comment as a document", comment={"of": ["a", "driver"]}),
    find("maxTimeMS", maxTimeMS=60_000),
    find("maxTimeMS below 0", maxTimeMS=-1),
    find("maxTimeMS as text", maxTimeMS="long"),
    find("read concern local", readConcern={"level": "local"}),
    find("read concern available", readConcern={"level": "available"}),
    find("read concern majority", readConcern={"level": "majority"}),
    find("read concern linearizable", readConcern={"level": "linearizable"}, filter={"region": 1}),
    find("read concern snapshot", readConcern={"level": "snapshot"}),
    find("read concern unknown", readConcern={"level": "newest"}),
    find("allowDiskUse", sort=BY_ID, allowDiskUse=True),
    find("noCursorTimeout", noCursorTimeout=True),
    find("allowPartialResults", allowPartialResults=True),
    find("tailable", tailable=True, routed=REFUSED),
    find("awaitData", awaitData=True, routed=REFUSED),
    find("unknown option", surprise=True),
    find("unknown operator", filter={"n": {"$surprise": 1}}),
    find("unknown top-level operator", filter={"$surprise": 1}),
    find("filter that is no document", filter=1),
    find("sort by a bad direction", sort={"n": 7}),
    find("$where", filter={"$where": "this.n === 2"}),
    find("$expr", filter={"$expr": {"$gt": ["$n", "$_id"]}}),
    find("$regex", filter={"name": Regex("^an", "i")}),
    find("$in", filter={"region": {"$in": [-3, 3]}}),
    find("$or", filter={"$or": [{"region": -3}, {"n": 4}]}),
    find("$nor and $not", filter={"$nor": [{"n": 1}, {"n": {"$not": {"$lt": 4}}}]}),
    find("$elemMatch in arrays", filter={"item.parts": {"$elemMatch": {"k": 4}}}),
    find("$all and $size", filter={"tags": {"$all": [1], "$size": 2}}),
    find("null", filter={"tags": None}),
    find("$type", filter={"n": {"$type": "int"}}),
    find("$jsonSchema", filter={"$jsonSchema": {"properties": {"n": {"minimum": 3}}}}),
    find("$comment", filter={"n": 1, "$comment": "said"}),
    find("$text", filter={"$text": {"$search": "three"}}),
    find(
        "$text by score",
        filter={"$text": {"$search": "one three"}},
        projection={"score": {"$meta": "textScore"}},
        sort={"score": {"$meta": "textScore"}, "_id": 1},
    ),
    find("$near", filter={"place": {"$near": {"$geometry": DOCUMENTS[3]["place"], "$maxDistance": 200_000}}}),
    find("$geoWithin", filter={"place": {"$geoWithin": {"$centerSphere": [[1, 1], 0.02]}}}),
]  # fmt: skip


@by_kind(*FINDS)
async def test_find_answers_as_a_replica_set(filled: dict[str, Place], case: Case, kind: str) -> None:
    await compare(filled, case, kind)


def aggregate(name: str, *stages: Mapping[str, Any], sort: bool = True, **options: Any) -> Case:
    sharded, routed = options.pop("sharded", None), options.pop("routed", None)
    command = {"aggregate": "orders", "pipeline": list(stages), "cursor": {}, **options}
    return Case(f"aggregate {name}", command, sharded=sharded, routed=routed, sort=sort)


ORDER: Final = {"$sort": {"_id": 1}}
LATER: Final = {"$match": {"_id": {"$gte": COUNT - 4}}}

AGGREGATES: Final = [
    aggregate("nothing"),
    aggregate("$match", {"$match": {"n": 2}}),
    aggregate("$sort, $skip, $limit", {"$sort": {"region": -1}}, {"$skip": 3}, {"$limit": 5}, sort=False),
    aggregate("$group", {"$group": {"_id": "$n", "sum": {"$sum": "$item.price"}, "avg": {"$avg": "$region"}}}),
    aggregate("$group of first", ORDER, {"$group": {"_id": "$n", "first": {"$first": "$_id"}}}),
    aggregate("$group all", {"$group": {"_id": None, "n": {"$sum": 1}}}),
    aggregate("$count", {"$match": {"n": 1}}, {"$count": "n"}),
    aggregate("$sortByCount", {"$sortByCount": "$n"}),
    aggregate("$bucket", {"$bucket": {"groupBy": "$_id", "boundaries": [0, 8, 16, 24]}}),
    aggregate("$bucketAuto", {"$bucketAuto": {"groupBy": "$_id", "buckets": 3}}, sort=False),
    aggregate("$facet", {"$facet": {"a": [ORDER, {"$limit": 2}], "b": [{"$count": "n"}]}}),
    aggregate("$unwind", {"$unwind": {"path": "$tags", "includeArrayIndex": "i"}}),
    aggregate("$project", {"$project": {"twice": {"$add": ["$n", "$n"]}}}),
    aggregate("$set and $unset", {"$set": {"x": 1}}, {"$unset": "text"}),
    aggregate("$replaceRoot", {"$replaceRoot": {"newRoot": "$item"}}),
    aggregate("$redact", {"$redact": {"$cond": [{"$eq": ["$n", 1]}, "$$KEEP", "$$PRUNE"]}}),
    aggregate("$sample", {"$sample": {"size": 100}}),
    aggregate("$lookup", LATER, {"$lookup": {"from": "other", "localField": "n", "foreignField": "_id", "as": "o"}}),
    aggregate(
        "$lookup of the sharded one itself",
        LATER,
        {"$lookup": {"from": "orders", "let": {"k": "$n"}, "as": "o",
                     "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$k"]}}}, {"$project": {"n": 1}}]}},
    ),
    aggregate(
        "$graphLookup",
        LATER,
        {"$graphLookup": {"from": "orders", "startWith": "$n", "connectFromField": "n", "connectToField": "_id",
                          "as": "chain", "maxDepth": 0}},
    ),
    aggregate("$unionWith", {"$unionWith": {"coll": "other", "pipeline": [{"$match": {"_id": 1}}]}}),
    aggregate(
        "$setWindowFields",
        {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {
            "sum": {"$sum": "$n", "window": {"documents": ["unbounded", "current"]}}}}},
    ),
    aggregate("$densify", LATER, {"$densify": {"field": "n", "range": {"step": 1, "bounds": [0, 6]}}}),
    aggregate("$fill", {"$fill": {"sortBy": {"_id": 1}, "output": {"none": {"value": 0}}}}),
    aggregate("$geoNear", {"$geoNear": {"near": DOCUMENTS[3]["place"], "distanceField": "far"}}, sort=False),
    aggregate("$text", {"$match": {"$text": {"$search": "three"}}}),
    aggregate("hint", {"$match": {"n": 1}}, hint="n_1"),
    aggregate("a hint that names none", hint="none"),
    aggregate("collation", {"$match": {"name": "ANNA"}}, collation=CASELESS),
    aggregate("let", {"$match": {"$expr": {"$eq": ["$n", "$$one"]}}}, let={"one": 1}),
    aggregate("allowDiskUse", ORDER, sort=False, allowDiskUse=True),
    aggregate("maxTimeMS", maxTimeMS=60_000),
    aggregate("comment", comment={"of": "a driver"}),
    aggregate("read concern majority", readConcern={"level": "majority"}),
    aggregate("read concern snapshot", readConcern={"level": "snapshot"}),
    aggregate("bypassDocumentValidation", bypassDocumentValidation=True),
    aggregate("batchSize 0", ORDER, sort=False, cursor={"batchSize": 0}),
    aggregate("batchSize 3", ORDER, sort=False, cursor={"batchSize": 3}),
    aggregate("no cursor", cursor=1),
    aggregate("unknown stage", {"$surprise": 1}),
    aggregate("unknown option", surprise=1),
    aggregate("two keys in a stage", {"$match": {}, "$sort": {"n": 1}}),
    aggregate("division by zero", {"$project": {"x": {"$divide": [1, 0]}}}),
    aggregate("$out not at the end", {"$out": "copy"}, ORDER),
    aggregate(
        "$function",
        {"$project": {"x": {"$function": {"body": "function(n) { return n + 1; }", "args": ["$n"], "lang": "js"}}}},
    ),
    Case("aggregate of a view", {"aggregate": "view", "pipeline": [ORDER], "cursor": {}}),
    Case("find on a view", {"find": "view", "sort": BY_ID}),
    Case("find on a view, a projection", {"find": "view", "sort": BY_ID, "projection": {"n": 1}, "limit": 2}),
    Case("find on nothing", {"find": "nothing"}),
    Case("aggregate on nothing", {"aggregate": "nothing", "pipeline": [{"$count": "n"}], "cursor": {}}),
    Case("$documents", {"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}, {"$match": {}}], "cursor": {}}),
]  # fmt: skip


@by_kind(*AGGREGATES)
async def test_aggregate_answers_as_a_replica_set(filled: dict[str, Place], case: Case, kind: str) -> None:
    await compare(filled, case, kind)


def count(name: str, **options: Any) -> Case:
    return Case(f"count {name}", {"count": "orders", **options})


def distinct(name: str, key: Any, **options: Any) -> Case:
    return Case(f"distinct {name}", {"distinct": "orders", "key": key, **options}, sort=True)


COUNTS: Final = [
    count("everything"),
    count("a query", query={"n": 2}),
    count("by the shard key", query={"region": 2}),
    count("limit", limit=5),
    count("limit below 0", limit=-5),
    count("skip and limit", query={"n": {"$lt": 4}}, skip=2, limit=10),
    count("skip past the end", skip=100),
    count("hint", query={"n": 2}, hint="n_1"),
    count("a hint that names none", query={"n": 2}, hint="none"),
    count("collation", query={"name": "ANNA"}, collation=CASELESS),
    count("fields", fields={"n": 1}),
    count("comment", comment={"of": "a driver"}),
    count("maxTimeMS", maxTimeMS=60_000),
    count("read concern majority", readConcern={"level": "majority"}),
    count("query null", query=None),
    count("unknown operator", query={"n": {"$surprise": 1}}),
    count("skip below 0", skip=-1),
    count("query that is no document", query=1),
    count("unknown option", surprise=1),
    count("$near", query={"place": {"$near": {"$geometry": DOCUMENTS[3]["place"]}}}),
    count("$where", query={"$where": "this.n === 2"}),
    Case("count on a view", {"count": "view"}),
    Case("count on nothing", {"count": "nothing"}),
    distinct("of a field", "n"),
    distinct("of the shard key", "region"),
    distinct("of arrays", "tags"),
    distinct("a query", "n", query={"region": {"$lt": -9}}),
    distinct("collation", "name", collation=CASELESS, query={"name": "bo"}),
    distinct("of nothing", "absent"),
    distinct("comment", "n", comment="c"),
    distinct("maxTimeMS", "n", maxTimeMS=60_000),
    distinct("read concern majority", "n", readConcern={"level": "majority"}),
    distinct("query null", "n", query=None),
    distinct("a key of the empty string", ""),
    distinct("unknown operator", "n", query={"n": {"$surprise": 1}}),
    distinct("of a dotted field", "item.price"),
    distinct("into arrays of documents", "item.parts.k"),
    distinct("by a place in an array", "tags.0"),
    distinct("a key that is no string", 1),
    distinct("unknown option", "n", surprise=1),
    distinct("a query that is no document", "n", query=1),
    Case("distinct on a view", {"distinct": "view", "key": "region"}, sort=True),
    Case("distinct on nothing", {"distinct": "nothing", "key": "n"}),
]  # fmt: skip


@by_kind(*COUNTS)
async def test_count_and_distinct_answer_as_a_replica_set(filled: dict[str, Place], case: Case, kind: str) -> None:
    await compare(filled, case, kind)


@by_kind(
    Case("the rest", {}),
    Case("batchSize", {"batchSize": 3}),
    Case("batchSize 0", {"batchSize": 0}),
    Case("batchSize below 0", {"batchSize": -1}),
    Case("maxTimeMS", {"maxTimeMS": 1000}),
    Case("comment", {"comment": {"of": "a driver"}}),
    Case("unknown option", {"surprise": 1}),
    Case("unknown cursor", {"getMore": Int64(123456)}),
    Case("collection of a wrong type", {"collection": 1}),
)
async def test_get_more_answers_as_a_replica_set(filled: dict[str, Place], case: Case, kind: str) -> None:
    answers = []
    for place in (filled[kind], filled["replica set"]):
        opened = await place.run({"find": "orders", "sort": BY_ID, "batchSize": 2})
        identity = Int64(opened["cursor"]["id"])
        answers.append(
            comparable(await place.run({"getMore": identity, "collection": "orders", **case.command}), place)
        )
        await place.run({"killCursors": "orders", "cursors": [identity]})
    assert not list(differing(answers[0], answers[1]))


@pytest.mark.parametrize("kind", ["sharded", "unsharded"])
async def test_a_killed_cursor_is_gone_and_the_answer_says_which_were_there(
    filled: dict[str, Place], kind: str
) -> None:
    answers = []
    for place in (filled[kind], filled["replica set"]):
        opened = await place.run({"find": "orders", "batchSize": 2})
        identity = Int64(opened["cursor"]["id"])
        killed = await place.run({"killCursors": "orders", "cursors": [identity, Int64(77)]})
        assert killed["cursorsKilled"] == [identity]
        again = await place.run({"killCursors": "orders", "cursors": [identity]})
        more = await place.run({"getMore": identity, "collection": "orders"})
        assert again.pop("cursorsNotFound") == [identity]
        killed["cursorsKilled"] = []
        answers.append([comparable(one, place) for one in (killed, again, more)])
    assert not list(differing(answers[0], answers[1]))


@by_kind(
    Case("cursors missing", {"killCursors": "orders"}),
    Case("no cursors", {"killCursors": "orders", "cursors": []}),
    Case("a cursor of a wrong type", {"killCursors": "orders", "cursors": ["x"]}),
    Case("a cursor as a short number", {"killCursors": "orders", "cursors": [7]}),
    Case("cursors that are no list", {"killCursors": "orders", "cursors": 7}),
)
async def test_a_bad_kill_cursors_fails_as_on_a_replica_set(filled: dict[str, Place], case: Case, kind: str) -> None:
    await compare(filled, case, kind)
