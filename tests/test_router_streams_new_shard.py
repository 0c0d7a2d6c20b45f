"""A shard that is added while streams are open: what it gets is delivered in the same streams, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clusters import admin, local
from clusters.cluster import of_set
from clusters.local import LocalCluster
from clusters.topology import Role, Topology, replica_set, sharded_cluster
from clusters.wire.connection import Connection
from router_streams_raw import Raw, Stream, kinds, numbers

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(scope="module")
async def growing() -> AsyncIterator[tuple[LocalCluster, LocalCluster]]:
    """A cluster of one shard, and a set that is to be its second."""
    cluster = await local.bring_up(sharded_cluster(1, 1), "tests-growing")
    try:
        late = await local.bring_up(Topology(shards=(replica_set("late", Role.SHARD, 1),)), "tests-late-shard")
        try:
            yield cluster, late
        finally:
            await late.down()
    finally:
        await cluster.down()


async def add(config: Connection, new: LocalCluster) -> None:
    (shard,) = new.topology.shards
    async with new.client() as client:
        await client.drop_database("mongofault")  # with which bring-up proved it Ready; a new shard must have no data
    await admin.add_shard(config, shard.name, [of_set(new, shard.name)[0].host])


async def write(raw: Raw, numbers: range) -> None:
    """Even ones below region 0, odd ones above."""
    for n in numbers:
        document = {"_id": n, "region": n % 2 * 2 - 1}
        await raw.command({"insert": "orders", "documents": [document], "writeConcern": {"w": "majority"}})


async def events(stream: Stream, count: int) -> list[int]:
    found = await stream.read(count)
    assert set(kinds(found)) == {"insert"}
    tokens = [event["_id"]["_data"] for event in found]
    assert tokens == sorted(tokens)
    return numbers(found)


async def test_its_events_come_in_the_streams_that_were_open_before_none_lost_and_in_order(
    growing: tuple[LocalCluster, LocalCluster],
) -> None:
    cluster, late = growing
    assert cluster.router is not None
    config = await Connection.open(of_set(cluster, "config")[0].host, deadline=10, internal=True)
    raw = Raw(await Connection.open(cluster.router, deadline=10), "growing")
    only = [{"$match": {"operationType": "insert", "ns.db": {"$in": ["growing", "born"]}}}]
    try:
        await raw.command({"enableSharding": "growing"}, "admin")
        await raw.command({"shardCollection": "growing.orders", "key": {"region": 1}}, "admin")
        # Filtered and projected, so that nothing of a chunk's move is in sight of the stages of the client.
        streams = [
            await raw.open(stages=[{"$project": {"documentKey": 1, "operationType": 1}}]),
            await raw.open(stages=[*only, {"$project": {"documentKey": 1, "operationType": 1}}]),
            await raw.open({"fullDocument": "updateLookup"}),
            await raw.open({}, 1, only),
            await raw.open({"allChangesForCluster": True}, 1, only),
        ]
        await write(raw, range(4))
        begun = len(await streams[0].read(2))  # under way when the shard comes

        await add(config, late)
        writing = asyncio.create_task(_write_on(cluster, range(4, 40)))
        await raw.command({"moveRange": "growing.orders", "min": {"region": 0}, "toShard": "late"}, "admin")
        await writing
        await write(raw, range(40, 44))
        expected = list(range(44))
        assert await events(streams[0], 44 - begun) == expected[begun:]
        for stream in streams[1:]:
            assert await events(stream, 44) == expected

        # A database that begins on the new shard: no other shard has a word of it.
        wide = await raw.open({"allChangesForCluster": True}, 1, only)
        await raw.command({"enableSharding": "born", "primaryShard": "late"}, "admin")
        for n in (50, 51):
            born = {"insert": "other", "documents": [{"_id": n}], "writeConcern": {"w": "majority"}}
            await raw.command(born, "born")
            await write(raw, range(n + 10, n + 11))
        for stream in (streams[4], wide):
            assert await events(stream, 4) == [50, 60, 51, 61]
        resumed = await raw.open({"allChangesForCluster": True, "resumeAfter": wide.token}, 1, only)
        await write(raw, range(70, 72))
        assert await events(resumed, 2) == [70, 71]
    finally:
        raw.connection.close()
        config.close()


async def _write_on(cluster: LocalCluster, numbers: range) -> None:
    assert cluster.router is not None
    raw = Raw(await Connection.open(cluster.router, deadline=10), "growing")
    await write(raw, numbers)
    raw.connection.close()


async def test_a_database_made_on_a_shard_that_came_after_the_stream_is_delivered(
    growing: tuple[LocalCluster, LocalCluster],
) -> None:
    cluster, _late = growing
    second = await local.bring_up(Topology(shards=(replica_set("later", Role.SHARD, 1),)), "tests-later-shard")
    assert cluster.router is not None
    config = await Connection.open(of_set(cluster, "config")[0].host, deadline=10, internal=True)
    raw = Raw(await Connection.open(cluster.router, deadline=10), "unheard")
    try:
        streams = [
            await raw.open(collection="orders"),  # not there yet
            await raw.open({}, 1),
            await raw.open({"allChangesForCluster": True}, 1, [{"$match": {"ns.db": "unheard"}}]),
        ]
        await add(config, second)
        await raw.command({"enableSharding": "unheard", "primaryShard": "later"}, "admin")
        await write(raw, range(6))
        for stream in streams:
            assert await events(stream, 6) == list(range(6))
            await raw.command({"killCursors": stream.collection, "cursors": [stream.cursor_id]}, stream.database)
    finally:
        raw.connection.close()
        config.close()
        await second.down()
