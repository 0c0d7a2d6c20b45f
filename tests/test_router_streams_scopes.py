"""Change streams on a database and on the cluster; drops and renames under a stream, and what comes after them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.timestamp import Timestamp

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection
from router_streams_raw import DEADLINE, Document, Raw, Stream, insert, kinds, numbers, raw_to, spread

pytestmark = pytest.mark.live

SCOPES: list[tuple[str | int, Document]] = [("orders", {}), (1, {}), (1, {"allChangesForCluster": True})]
WIDE = SCOPES[1:]


@pytest.fixture
async def raw(sharded: LocalCluster) -> AsyncIterator[Raw]:
    async with raw_to(sharded) as raw:
        await spread(raw)
        yield raw


async def opened(raw: Raw, scope: tuple[str | int, Document], **options: Any) -> Stream:
    """With a $match on the database: other tests' writes are changes of the cluster too."""
    target, scope_options = scope
    return await raw.open({**scope_options, **options}, target, [{"$match": {"ns.db": raw.database}}])


@pytest.mark.parametrize("scope", WIDE, ids=["database", "cluster"])
async def test_a_wide_stream_has_every_collections_events_in_order_and_resumes_exactly_anywhere(
    raw: Raw, scope: tuple[str | int, Document]
) -> None:
    stream = await opened(raw, scope)
    assert stream.collection == "$cmd.aggregate"
    await raw.command({"create": "plain"})
    for n in range(0, 9, 3):
        await insert(raw, [n, n + 1])
        await insert(raw, [n + 2], "plain")
    events = await stream.read(9)
    assert numbers(events) == list(range(9))
    assert kinds(events) == ["insert"] * 9
    assert {event["ns"]["coll"] for event in events} == {"orders", "plain"}
    for index in (0, 4, 7):
        rest = list(range(index + 1, 9))
        for how in ("resumeAfter", "startAfter"):
            resumed = await opened(raw, scope, **{how: events[index]["_id"]})
            assert numbers(await resumed.read(len(rest))) == rest
        at = events[index]["clusterTime"]
        started = await opened(raw, scope, startAtOperationTime=at)
        assert numbers(await started.read(len(rest) + 1)) == [index, *rest]
        started = await opened(raw, scope, startAtOperationTime=Timestamp(at.time, at.inc + 1))
        assert numbers(await started.read(len(rest))) == rest
    token = await stream.idle_token()
    await insert(raw, [9, 10])
    resumed = await opened(raw, scope, resumeAfter=token)
    assert numbers(await resumed.read(2)) == [9, 10]


@pytest.mark.parametrize("scope", SCOPES, ids=["collection", "database", "cluster"])
async def test_what_is_not_there_yet_can_be_watched(sharded: LocalCluster, scope: tuple[str | int, Document]) -> None:
    async with raw_to(sharded) as raw:
        stream = await opened(raw, scope)
        await insert(raw, [1])
        assert numbers(await stream.read(1)) == [1]
        await raw.command({"drop": "orders"})
        ended = await stream.read(2 if scope[0] == "orders" else 1)
        assert kinds(ended)[0] == "drop"


async def test_a_stream_on_a_collection_ends_with_its_first_drop_and_invalidate(raw: Raw) -> None:
    stream, above = await raw.open(), await raw.open(collection=1)
    await insert(raw, [0, 1])
    await raw.command({"drop": "orders"})
    drops = together(await above.read(4), "drop")
    events = await stream.read(9)
    assert kinds(events) == ["insert", "insert", *drops, "invalidate"]
    assert stream.cursor_id == 0
    assert stream.token == events[-1]["_id"]
    refused = await raw.refused({"aggregate": "orders", "pipeline": [resume("resumeAfter", stream)], "cursor": {}})
    assert refused["code"] == 260
    await spread(raw)
    await insert(raw, [2, 3])
    later = await raw.open({"startAfter": stream.token})
    # Each shard of a 6.0 drops its part with an event of its own; what lies behind the invalidate comes again.
    behind = ["drop"] * (2 - len(drops))
    events = await later.read(len(behind) + 2)
    assert kinds(events) == [*behind, "insert", "insert"]
    assert numbers(events) == [2, 3]
    assert later.cursor_id != 0


def together(events: list[Document], kind: str) -> list[str]:
    """The kind, once for each shard whose event of that kind has the first one's cluster time.

    A token holds the time before the mark of an invalidate: such events all come before the invalidate.
    """
    times = [event["clusterTime"] for event in events if event["operationType"] == kind]
    assert len(times) == 2, kinds(events)
    return [kind] * times.count(min(times))


def resume(how: str, stream: Stream) -> Document:
    return {"$changeStream": {how: stream.token}}


@pytest.mark.parametrize("target", ["orders", 1], ids=["collection", "database"])
async def test_the_drop_of_the_database_ends_a_stream_within_it_and_a_new_one_can_start_after_it(
    raw: Raw, target: str | int
) -> None:
    stream, above = await raw.open(collection=target), await opened(raw, SCOPES[2])
    await insert(raw, [0, 1])
    await raw.command({"dropDatabase": 1})
    told = await above.read(6)
    events = await stream.read(9)
    # Each shard of a 6.0 tells of its part: a stream on the database has both drops before its end.
    ends = together(told, "drop" if target == "orders" else "dropDatabase")
    drops = [] if target == "orders" else ["drop", "drop"]
    assert kinds(events) == ["insert", "insert", *drops, *ends, "invalidate"]
    assert stream.cursor_id == 0
    await spread(raw)
    await insert(raw, [2])
    later = await raw.open({"startAfter": stream.token}, target)
    behind = ends[:1] * (2 - len(ends))
    events = await later.read(len(behind) + 1)
    assert kinds(events) == [*behind, "insert"]


async def test_a_stream_on_the_cluster_outlives_the_drop_of_a_database(raw: Raw) -> None:
    stream = await opened(raw, SCOPES[2])
    await insert(raw, [0, 1])
    await raw.command({"dropDatabase": 1})
    await spread(raw)
    await insert(raw, [2])
    events = await stream.read(7)
    assert kinds(events) == ["insert", "insert", "drop", "drop", "dropDatabase", "dropDatabase", "insert"]
    tokens = [event["_id"]["_data"] for event in events]
    assert tokens == sorted(tokens)
    assert stream.cursor_id != 0


async def rename(raw: Raw, cluster: LocalCluster, source: str, target: str) -> None:
    """As a router does it: through the database's primary shard."""
    connection = await Connection.open((await primary_of(cluster, "shard0")).host, deadline=10, internal=True)
    try:
        databases = await raw.command({"find": "databases", "filter": {"_id": raw.database}}, "config")
        (database,) = databases["cursor"]["firstBatch"]
        await connection.command(
            raw.database,
            {
                "_shardsvrRenameCollection": source,
                "to": f"{raw.database}.{target}",
                "dropTarget": False,
                "allowEncryptedCollectionRename": False,
                "databaseVersion": database["version"],
                "writeConcern": {"w": "majority"},
            },
            deadline=30,
        )
    finally:
        connection.close()


async def test_a_rename_ends_the_streams_on_both_names_and_not_those_above(raw: Raw, sharded: LocalCluster) -> None:
    old, new = await raw.open(), await raw.open(collection="renamed")
    above = await raw.open(collection=1)
    await insert(raw, [0, 1])
    await rename(raw, sharded, "orders", "renamed")
    renames = together(await above.read(4), "rename")
    assert kinds(await old.read(9)) == ["insert", "insert", *renames, "invalidate"]
    events = await new.read(9)
    assert kinds(events) == [*renames, "invalidate"]
    assert events[0]["to"] == {"db": raw.database, "coll": "renamed"}
    assert (old.cursor_id, new.cursor_id) == (0, 0)
    later = await raw.open({"startAfter": new.token}, "renamed")
    await insert(raw, [3], "renamed")
    behind = ["rename"] * (2 - len(renames))
    events = await later.read(len(behind) + 1)
    assert kinds(events) == [*behind, "insert"]
    assert kinds(await above.read(1)) == ["insert"]


async def test_expanded_events_come_only_where_they_are_asked_for(raw: Raw) -> None:
    expanded = await raw.open({"showExpandedEvents": True}, 1)
    classic = await raw.open({}, 1)
    await spread(raw, "more")
    await raw.command({"createIndexes": "more", "indexes": [{"key": {"a": 1}, "name": "a"}]})
    await raw.command({"dropIndexes": "more", "index": "a"})
    await insert(raw, [0], "more")
    await raw.command({"create": "view", "viewOn": "more", "pipeline": []})
    found: list[Document] = []
    async with asyncio.timeout(DEADLINE):
        while "insert" not in kinds(found):
            found += await expanded.get_more()
    # Those of indexes may come from each shard that has a part of the collection.
    assert list(dict.fromkeys(kinds(found)))[:5] == [
        "create",
        "createIndexes",
        "shardCollection",
        "dropIndexes",
        "insert",
    ]
    assert found[2]["operationDescription"] == {"shardKey": {"region": 1}}
    assert "collectionUUID" in found[0]
    assert kinds(await classic.read(1)) == ["insert"]


async def test_migrations_are_not_shown_by_a_router(raw: Raw) -> None:
    with pytest.raises(CommandFailed) as refused:
        await raw.open({"showMigrationEvents": True})
    assert refused.value.code == 31123
