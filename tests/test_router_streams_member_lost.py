"""Members that are killed or voted out under a change stream: the driver resumes by itself, exactly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pymongo.read_preferences import Secondary

from clusters import local
from clusters.cluster import of_set
from clusters.local import LocalCluster
from clusters.router.errors import RESUMABLE, RouterError
from clusters.topology import sharded_cluster
from clusters.wire.connection import Connection
from router_streams_parts import DATABASE, Orders, cursors_of, orders_on, read, room, until, watch

pytestmark = pytest.mark.live

SHARD = "shard0"


@pytest.fixture(scope="module")
async def expendable() -> AsyncIterator[LocalCluster]:
    """One shard, which these tests do not leave as they found it."""
    cluster = await local.bring_up(sharded_cluster(1, 3), "tests-streams-lost")
    try:
        yield cluster
    finally:
        await cluster.down()


@pytest.fixture
async def orders(expendable: LocalCluster) -> AsyncIterator[Orders]:
    async with orders_on(expendable) as orders:
        yield orders


async def test_a_member_killed_under_a_stream_costs_no_event(orders: Orders) -> None:
    await orders.update(0)
    reading = orders.client[DATABASE].get_collection(orders.name, read_preference=Secondary())
    async with (
        room(orders) as inside,
        await watch(reading, full_document="updateLookup", comment={"run": "lost"}) as stream,
    ):
        await orders.update(1)
        await read(stream, 2)
        ((member, _secondary, _comment),) = await cursors_of(orders.cluster, "lost")
        cursors: dict[bool, int] = {}  # by whether it is on that member
        while len(cursors) < 2:
            cursor = await inside.open(**{"$readPreference": {"mode": "secondary"}})
            cursors[inside.streams._streams[cursor].cursors[SHARD].host == member.host] = cursor
        writing = asyncio.create_task(_updates(orders, range(2, 20)))
        await orders.cluster.members[member.name].kill()
        events = await read(stream, 36)
        await writing
        with pytest.raises(RouterError) as lost:
            await inside.read(cursors[True], 100)
        assert {one[0].host for one in await cursors_of(orders.cluster, "lost")} != {member.host}
        assert len(await inside.read(cursors[False], 36)) == 36
    seen = [(event["documentKey"]["_id"], event["updateDescription"]["updatedFields"]["seq"]) for event in events]
    assert seen == [(n, seq) for seq in range(2, 20) for n in (0, 1)]
    assert lost.value.code == 6
    assert RESUMABLE in lost.value.labels
    assert not inside.streams.owns(cursors[True])


async def test_a_new_primary_is_known_as_soon_as_it_is_elected(orders: Orders) -> None:
    async with room(orders) as inside:
        before = await inside.monitor.primary(SHARD, deadline=5)
        other = next(one for one in of_set(orders.cluster, SHARD) if one.running() and one.host != before)
        connection = await Connection.open(other.host, deadline=5)
        await connection.command("admin", {"replSetStepUp": 1}, deadline=10)
        connection.close()

        async def known() -> bool:
            return await inside.monitor.primary(SHARD, deadline=2) == other.host

        await until(known, "the monitor names the new primary", deadline=2)


async def _updates(orders: Orders, numbers: range) -> None:
    for seq in numbers:
        await orders.update(seq)
