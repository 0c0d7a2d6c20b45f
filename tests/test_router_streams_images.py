"""Pre- and post-images through the router: what is there, what is missing, and the error where it is required."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import Connection
from router_streams_raw import Document, Raw, insert, raw_to, spread, update

pytestmark = pytest.mark.live

Both = tuple[Raw, Raw]


@pytest.fixture(scope="module")
async def both(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[Both]:
    """The router, with `orders` and `bare` on both shards, and the replica set; `orders` keeps pre-images."""
    async with raw_to(sharded) as router, raw_to(replica_set) as plain:
        for raw, sets in ((router, ("shard0", "shard1")), (plain, ("rs0",))):
            for collection in ("orders", "bare"):
                await spread(raw, collection)
                await insert(raw, [0, 1], collection, v=0)
            cluster = sharded if raw is router else replica_set
            await asyncio.gather(*(_keep_images(cluster, name, raw.database) for name in sets))
        yield router, plain


async def _keep_images(cluster: LocalCluster, set_name: str, database: str) -> None:
    connection = await Connection.open((await primary_of(cluster, set_name)).host, deadline=10)
    change = {"collMod": "orders", "changeStreamPreAndPostImages": {"enabled": True}}
    await connection.command(database, {**change, "writeConcern": {"w": "majority"}}, deadline=30)
    connection.close()


async def write(raw: Raw, collection: str = "orders") -> None:
    """An update, a replacement and a deletion on each shard; afterwards both documents are as they were before."""
    for n in (0, 1):
        query = {"_id": n, "region": n % 2 * 2 - 1}
        await update(raw, n, {"$set": {"v": 1}}, collection)
        await update(raw, n, {**query, "v": 2}, collection)
        await raw.command({"delete": collection, "deletes": [{"q": query, "limit": 1}]})
        await insert(raw, [n], collection, v=0)


def images(events: list[Document]) -> list[tuple[Any, ...]]:
    return [
        (event["operationType"], event.get("fullDocumentBeforeChange", "none"), event.get("fullDocument", "none"))
        for event in events
    ]


OPTIONS = [
    {"fullDocument": "required"},
    {"fullDocument": "whenAvailable"},
    {"fullDocumentBeforeChange": "required"},
    {"fullDocumentBeforeChange": "whenAvailable"},
    {"fullDocument": "required", "fullDocumentBeforeChange": "required"},
    {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"},
    {"fullDocument": "default", "fullDocumentBeforeChange": "off"},
]


async def test_images_are_those_of_a_replica_set(both: Both) -> None:
    found = []
    for raw in both:
        streams = [await raw.open(options) for options in OPTIONS]
        await write(raw)
        events = [await one.read(8) for one in streams]
        # What a shard hands out for the router's own use must not reach the client.
        assert not any("preImageId" in event or "rawOplogUpdateSpec" in event for each in events for event in each)
        found.append([images(each) for each in events])
    assert found[0] == found[1]
    before, after = ({"_id": 0, "region": -1, "v": v} for v in (0, 1))
    assert found[0][4][0] == ("update", before, after)


async def test_where_no_image_is_kept_it_is_null_when_available_and_an_error_when_required(both: Both) -> None:
    answers: list[list[Any]] = []
    for raw in both:
        loose = [await raw.open(one, "bare") for one in OPTIONS if "whenAvailable" in one.values()]
        strict = [await raw.open(one, "bare") for one in OPTIONS if "required" in one.values()]
        await write(raw, "bare")
        answers.append([images(await one.read(8)) for one in loose])
        for one in strict:
            error = await one.failure()
            assert "was not found for event" in str(error)
            labels = error.reply.get("errorLabels")
            answers[-1].append((error.code, error.code_name, labels))
            gone = await raw.refused({"getMore": one.cursor_id, "collection": "bare"})
            assert gone["code"] == 43
    assert answers[0] == answers[1]
    assert answers[0][-1] == (47, "NoMatchingDocument", None)


async def test_a_filter_spares_a_wide_stream_the_images_that_are_not_kept(both: Both) -> None:
    for raw in both:
        only = [{"$match": {"ns.coll": "orders"}}]
        stream = await raw.open({"fullDocumentBeforeChange": "required"}, 1, only)
        await update(raw, 0, {"$inc": {"w": 1}}, "bare")
        await update(raw, 0, {"$inc": {"w": 1}})
        (event,) = await stream.read(1)
        assert event["ns"]["coll"] == "orders"
        assert event["fullDocumentBeforeChange"]["_id"] == 0


async def test_a_collection_can_be_made_with_images(both: Both) -> None:
    for raw in both:
        await raw.command({"create": "imaged", "changeStreamPreAndPostImages": {"enabled": True}})
        stream = await raw.open({"fullDocument": "required", "fullDocumentBeforeChange": "required"}, "imaged")
        await insert(raw, [0], "imaged", v=0)
        await update(raw, 0, {"$inc": {"v": 1}}, "imaged")
        _insert, event = await stream.read(2)
        assert (event["fullDocumentBeforeChange"]["v"], event["fullDocument"]["v"]) == (0, 1)
