"""Change streams, wrong and right: the router answers as a plain replica set does, code, name and labels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from clusters.local import LocalCluster
from router_parts import session
from router_streams_raw import Document, Raw, insert, raw_to, spread, update

pytestmark = pytest.mark.live

Both = tuple[Raw, Raw]


@pytest.fixture(scope="module")
async def both(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[Both]:
    """The router, with `orders` on both shards, and the replica set."""
    async with raw_to(sharded) as router, raw_to(replica_set) as plain:
        for one in (router, plain):
            await spread(one)
            await insert(one, [0, 1])
        yield router, plain


TOKEN = {"_data": "826B0C8605000000022B0229296E04"}


def stream(options: Any = None, target: Any = "orders", stages: tuple[Any, ...] = (), **fields: Any) -> Document:
    pipeline = [{"$changeStream": {} if options is None else options}, *stages]
    return {"aggregate": target, "pipeline": pipeline, "cursor": {}, **fields}


STAGES_NOT_ALLOWED: list[Document] = [
    {"$group": {"_id": 1}},
    {"$sort": {"a": 1}},
    {"$limit": 1},
    {"$unwind": "$a"},
    {"$lookup": {"from": "a", "localField": "b", "foreignField": "c", "as": "d"}},
    {"$out": "a"},
    {"$nonsense": 1},
    {"$match": {"$where": "1"}},
    {"$changeStream": {}},
]

WRONG: list[tuple[str, Document]] = [
    *(("", stream(readConcern={"level": one})) for one in ("local", "available", "linearizable", "snapshot")),
    ("", stream(noCursorTimeout=True)),
    ("", stream(nonsense=1)),
    ("", stream({"nonsense": 1})),
    ("", stream({"fullDocument": "sometimes"})),
    ("", stream({"fullDocument": 1})),
    ("", stream({"fullDocumentBeforeChange": "always"})),
    ("", stream(3)),
    ("", stream(target=2)),
    ("", stream(target="system.orders")),
    ("admin", stream(target=1)),
    ("admin", stream()),
    ("config", stream(target=1)),
    ("config", stream()),
    ("", stream({"allChangesForCluster": True}, 1)),
    ("admin", stream({"allChangesForCluster": True}, "orders")),
    ("", stream({"resumeAfter": TOKEN, "startAtOperationTime": Timestamp(1, 1)})),
    ("", stream({"resumeAfter": TOKEN, "startAfter": TOKEN})),
    ("", stream({"resumeAfter": {"_data": "zz"}})),
    ("", stream({"resumeAfter": {"x": 1}})),
    ("", stream({"startAfter": 1})),
    ("", stream({"startAtOperationTime": 1})),
    *(("", stream(stages=(stage,))) for stage in STAGES_NOT_ALLOWED),
    ("", {"aggregate": "orders", "pipeline": [{"$changeStream": {}}]}),
    ("", stream(cursor=1)),
    ("", stream(cursor={"batchSize": -1})),
    ("", stream(cursor={"batchSize": "a"})),
    ("", stream(maxTimeMS=-1)),
]


@pytest.mark.parametrize(("database", "command"), WRONG, ids=[str(one) for one in range(len(WRONG))])
async def test_what_is_wrong_with_an_aggregate_is_refused_alike(both: Both, database: str, command: Document) -> None:
    router, plain = [await one.refused(command, database or None) for one in both]
    assert router == plain


@pytest.mark.parametrize(
    "fields",
    [
        {"batchSize": -1},
        {"batchSize": "a"},
        {"maxTimeMS": -1},
        {"maxTimeMS": "a"},
        {"nonsense": 1},
        {"collection": "another"},
        {"getMore": Int64(1234567890123)},
    ],
    ids=str,
)
async def test_what_is_wrong_with_a_get_more_is_refused_alike_and_the_stream_lives_on(
    both: Both, fields: Document
) -> None:
    answers = []
    for raw in both:
        one = await raw.open()
        command = {"getMore": one.cursor_id, "collection": "orders", "maxTimeMS": 10, **fields}
        answers.append(await raw.refused(command))
        assert await one.get_more() == []
        await raw.command({"killCursors": "orders", "cursors": [one.cursor_id]})
    assert answers[0] == answers[1]


MONGOS_CODES = {50736: 50799, 50737: 50800, 50738: 50801}
"""The codes of a mongod, and those of a mongos for the same."""


async def test_a_get_more_must_come_in_the_session_of_its_stream(both: Both) -> None:
    first, second = session(), session()
    cases: list[tuple[Document | None, Document | None]] = [(None, first), (first, None), (first, second)]
    for created, asking in cases:
        codes = []
        for raw in both:
            within: Document = {"lsid": created} if created else {}
            one = await raw.open(**within)
            command = {"getMore": one.cursor_id, "collection": "orders", "maxTimeMS": 10}
            codes.append((await raw.refused({**command, **({"lsid": asking} if asking else {})}))["code"])
            assert await one.get_more(**within) == []
            await raw.command({"killCursors": "orders", "cursors": [one.cursor_id]})
        assert codes[0] == MONGOS_CODES[codes[1]]


async def test_killing_a_streams_cursor_is_answered_alike_and_ends_its_get_more(both: Both) -> None:
    answers = []
    for raw in both:
        one = await raw.open()
        command = {"killCursors": "orders", "cursors": [one.cursor_id, Int64(5)]}
        reply = await raw.command(command)
        again = await raw.command(command)
        more = {"getMore": one.cursor_id, "collection": "orders"}
        answers.append(
            (
                [[one.cursor_id, 5].index(each) for each in reply["cursorsKilled"]],
                reply["cursorsNotFound"],
                reply["cursorsAlive"],
                reply["cursorsUnknown"],
                len(again["cursorsNotFound"]),
                await raw.refused(more),
            )
        )
    assert answers[0] == answers[1]


RIGHT: list[tuple[Document, ...]] = [
    ({"$match": {"operationType": "update"}},),
    ({"$match": {"fullDocument.n": {"$gte": 2}}},),
    ({"$project": {"documentKey": 1, "updateDescription.updatedFields": 1}},),
    ({"$project": {"ns": 0, "clusterTime": 0, "wallTime": 0}},),
    ({"$addFields": {"twice": {"$multiply": ["$documentKey._id", 2]}}}, {"$unset": "ns"}),
    ({"$set": {"operationType": "other"}},),
    ({"$replaceWith": {"_id": "$_id", "key": "$documentKey"}},),
    ({"$replaceRoot": {"newRoot": {"_id": "$_id", "what": "$operationType"}}},),
    ({"$redact": {"$cond": [{"$eq": ["$operationType", "delete"]}, "$$PRUNE", "$$DESCEND"]}},),
]


def plainly(events: list[Document], database: str) -> list[Document]:
    """Without what no two clusters have alike."""
    for event in events:
        for name in ("_id", "clusterTime", "wallTime", "collectionUUID"):
            event.pop(name, None)
        event.get("ns", {}).pop("db", None)
        for key in ("documentKey", "key"):
            event.get(key, {}).pop("region", None)  # of the shard key
    return events


async def write(raw: Raw) -> None:
    for n in (10, 11):
        await insert(raw, [n], n=1)
        await update(raw, n, {"$set": {"n": 2}})
        await update(raw, n, {"region": n % 2 * 2 - 1, "n": 3})
        query = {"_id": n, "region": n % 2 * 2 - 1}
        await raw.command({"delete": "orders", "deletes": [{"q": query, "limit": 1}]})


async def test_the_stages_of_the_client_do_what_they_do_on_a_replica_set(both: Both) -> None:
    delivered: list[list[list[Document]]] = []
    for raw in both:
        streams = [await raw.open({"fullDocument": "updateLookup"}, stages=stages) for stages in RIGHT]
        whole = await raw.open()
        await write(raw)
        end = (await whole.read(8))[-1]["_id"]
        found = []
        for one in streams:
            events: list[Document] = []
            async with asyncio.timeout(30):
                while one.token["_data"] < end["_data"]:
                    events += await one.get_more()
            found.append(plainly(events, raw.database))
            await raw.command({"killCursors": "orders", "cursors": [one.cursor_id]})
        delivered.append(found)
    for stages, router, plain in zip(RIGHT, *delivered, strict=True):
        # Looked up after the write: what it finds depends on when it looks.
        for event in router + plain:
            event.pop("fullDocument", None)
        if "fullDocument.n" not in str(stages):
            assert router == plain, stages


@pytest.mark.parametrize(
    "stage",
    [{"$project": {"_id": 0}}, {"$addFields": {"_id": 1}}, {"$set": {"_id.x": 1}}, {"$replaceWith": {"a": 1}}],
    ids=str,
)
async def test_a_pipeline_that_changes_the_token_ends_the_stream_alike(both: Both, stage: Document) -> None:
    answers = []
    for raw in both:
        one = await raw.open(stages=(stage,))
        await update(raw, 0, {"$inc": {"n": 1}})
        error = await one.failure()
        assert "resume token, was modified by the pipeline" in str(error)
        labels = error.reply.get("errorLabels")
        gone = await raw.refused({"getMore": one.cursor_id, "collection": "orders"})
        answers.append((error.code, error.code_name, labels, gone))
    assert answers[0] == answers[1]
    assert answers[0][0] == 280


async def test_a_token_whose_event_is_gone_is_refused_alike(both: Both) -> None:
    answers = []
    for raw in both:
        one = await raw.open()
        await update(raw, 1, {"$inc": {"n": 1}})
        (event,) = await one.read(1)
        data = event["_id"]["_data"]
        assert data.endswith("2B020004")  # the document's _id, 1
        gone = {"_data": data.removesuffix("2B020004") + "290004"}
        try:
            resumed = await raw.open({"resumeAfter": gone})
        except Exception as error:  # where the first batch is not empty
            failure: Any = error
        else:
            failure = await resumed.failure()
        answers.append((failure.code, failure.code_name, failure.reply.get("errorLabels")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 280
