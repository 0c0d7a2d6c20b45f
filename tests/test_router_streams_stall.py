"""The silent stall through the router's streams, and everything that must stay bounded while a getMore is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo.read_preferences import Secondary

from clusters.cluster import data_members
from clusters.local import LocalCluster
from clusters.member import Member
from clusters.router.errors import RouterError
from router_streams_parts import (
    DATABASE,
    PINNED,
    TAGS,
    Moves,
    Orders,
    Room,
    cursors_of,
    orders_on,
    read,
    room,
    tagged,
    until,
    watch,
)

pytestmark = pytest.mark.live

SHARD = "shard0"


@pytest.fixture(scope="module")
async def orders(sharded: LocalCluster) -> AsyncIterator[Orders]:
    async with orders_on(sharded) as orders:
        await orders.update(0)
        yield orders


@pytest.fixture
async def inside(orders: Orders) -> AsyncIterator[Room]:
    async with room(orders) as inside:
        yield inside


@pytest.fixture(scope="module")
async def tags(sharded: LocalCluster) -> AsyncIterator[Moves]:
    async with tagged(sharded) as moves:
        yield moves


@pytest.fixture
async def moves(tags: Moves) -> AsyncIterator[Moves]:
    try:
        yield tags
    finally:
        for member in data_members(tags.cluster):
            member.thaw()


async def test_a_frozen_lookup_member_silences_the_stream_without_an_error_until_it_thaws(
    orders: Orders, moves: Moves
) -> None:
    reading = orders.client[DATABASE].get_collection(orders.name, read_preference=Secondary(TAGS))
    async with await watch(reading, full_document="updateLookup", comment={"run": "stall"}) as stream:
        await orders.update(1)
        assert len(await read(stream, 2)) == 2
        a, b = await moves.move(SHARD)
        b.freeze()
        await orders.update(2)
        silent_until = time.monotonic() + 3
        seen = []
        while time.monotonic() < silent_until:
            seen.append(await stream.try_next())
        # The other shard's event waits behind the one that cannot come.
        assert seen and set(seen) == {None}
        (row,) = (await orders.client.admin.command("mongofaultRouterStatus"))["streams"]
        assert (row["shard"], row["member"], row["comment"]) == (SHARD, a.host, {"run": "stall"})
        assert row["seconds"] > 2.5
        assert row["maxTimeMS"] == 100
        assert await _hung_get_mores(a) == [row["shardCursorId"]]
        thawed = time.monotonic()
        b.thaw()
        events = await read(stream, 2)
        assert time.monotonic() - thawed < 5
    assert [event["updateDescription"]["updatedFields"]["seq"] for event in events] == [2, 2]


async def test_the_lookup_goes_where_the_read_preference_says_and_bears_the_comment_of_its_stream(
    orders: Orders, moves: Moves
) -> None:
    reading = orders.client[DATABASE].get_collection(orders.name, read_preference=Secondary(TAGS))
    async with await watch(reading, full_document="updateLookup", comment={"run": "lookup"}) as stream:
        await orders.update(4)
        await read(stream, 2)
        _a, b = await moves.move(SHARD)
        async with b.client() as client, held_after_aggregate(client, orders.namespace):
            await orders.update(5)
            reader = asyncio.create_task(read(stream, 2))
            lookups: list[dict[str, Any]] = []

            async def looked_up() -> bool:
                lookups[:] = await _aggregates_on(client, orders.namespace)
                return bool(lookups)

            await until(looked_up, "the lookup is held on the member that bears the tag", deadline=10)
            assert [one["command"]["comment"] for one in lookups] == [{"run": "lookup"}]
        assert len(await reader) == 2


@asynccontextmanager
async def held_after_aggregate(client: Any, namespace: str) -> AsyncIterator[None]:
    name = "waitAfterCommandFinishesExecution"
    data = {"ns": namespace, "commands": ["aggregate"]}
    await client.admin.command("configureFailPoint", name, mode="alwaysOn", data=data)
    try:
        yield
    finally:
        await client.admin.command("configureFailPoint", name, mode="off")


async def _aggregates_on(client: Any, namespace: str) -> list[dict[str, Any]]:
    operations = await client.admin.aggregate(
        [{"$currentOp": {"allUsers": True}}, {"$match": {"ns": namespace, "command.aggregate": {"$exists": True}}}]
    )
    return [one async for one in operations]


async def test_a_hung_get_more_ends_as_soon_as_its_cursor_is_killed(inside: Room, moves: Moves) -> None:
    orders = inside.orders
    cursor = await inside.open(**{"$readPreference": PINNED})
    await orders.update(6)
    await inside.read(cursor, 2, maxTimeMS=100)
    a, b = await moves.move(SHARD)
    b.freeze()
    await orders.update(7)
    waiting = asyncio.create_task(inside.get_more(cursor, maxTimeMS=60_000))
    await until(lambda: _hung(inside), "a shard getMore far past its maxTimeMS", deadline=15)
    started = time.monotonic()
    assert await inside.streams.kill([cursor]) == [cursor]
    with pytest.raises(RouterError) as killed:
        await waiting
    assert time.monotonic() - started < 1
    assert killed.value.code == 237
    assert await _hung_get_mores(a) == []
    assert inside.streams.table() == []


async def test_killing_the_cursor_of_a_frozen_member_gives_up_after_two_seconds(inside: Room, moves: Moves) -> None:
    cursor = await inside.open(**{"$readPreference": PINNED})
    await inside.get_more(cursor, maxTimeMS=100)
    frozen = moves.bearers[SHARD]
    frozen.freeze()
    started = time.monotonic()
    await inside.streams.kill([cursor])
    assert 1.5 < time.monotonic() - started < 3
    assert not inside.streams.owns(cursor)


async def test_a_quiet_stream_asks_the_shards_only_while_a_client_waits(inside: Room) -> None:
    cursor = await inside.open()
    started = time.monotonic()
    assert (await inside.get_more(cursor, maxTimeMS=300))["nextBatch"] == []
    assert 0.25 < time.monotonic() - started < 1
    assert {row["maxTimeMS"] for row in inside.streams.table()} <= {300}
    await until(lambda: not inside.streams.table(), "the shard getMores have returned", deadline=5)
    await asyncio.sleep(0.3)
    assert inside.streams.table() == []


async def test_a_shard_get_more_never_gets_more_than_a_second(inside: Room) -> None:
    cursor = await inside.open()
    waiting = asyncio.create_task(inside.get_more(cursor, maxTimeMS=2500))
    await until(inside.streams.table, "a shard getMore is under way", deadline=5)
    assert {row["maxTimeMS"] for row in inside.streams.table()} == {1000}
    started = time.monotonic()
    assert (await waiting)["nextBatch"] == []
    assert time.monotonic() - started > 1.5


async def test_a_get_more_on_a_cursor_that_is_not_free_not_ours_or_not_there_is_refused(inside: Room) -> None:
    cursor = await inside.open()
    waiting = asyncio.create_task(inside.get_more(cursor, maxTimeMS=500))
    await until(inside.streams.table, "the first getMore waits", deadline=5)
    for code, cursor_id, fields in (
        (12051, cursor, {}),
        (13, cursor, {"collection": "another"}),
        (43, cursor + 1, {}),
    ):
        with pytest.raises(RouterError) as refused:
            await inside.get_more(cursor_id, **fields)
        assert refused.value.code == code
    assert (await waiting)["nextBatch"] == []


async def test_the_stream_of_a_client_that_goes_away_in_its_get_more_is_killed(inside: Room) -> None:
    run = f"gone {time.monotonic()}"
    cursor = await inside.open({"fullDocument": "default"}, comment={"run": run})
    waiting = asyncio.create_task(inside.get_more(cursor, maxTimeMS=60_000))
    await until(inside.streams.table, "the getMore waits", deadline=5)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    async def gone() -> bool:
        return not inside.streams.owns(cursor) and not await cursors_of(inside.orders.cluster, run)

    await until(gone, "the stream and its cursors on the shards are gone")


def _hung(inside: Room) -> bool:
    return any(row["seconds"] > row["maxTimeMS"] / 1000 + 1 for row in inside.streams.table())


async def _hung_get_mores(member: Member) -> list[int]:
    """Cursor ids of the getMores that this member runs past their maxTimeMS, from its own $currentOp."""
    async with member.client() as client:
        operations = await client.admin.aggregate(
            [
                {"$currentOp": {"allUsers": True}},
                {"$match": {"op": "getmore", "command.collection": {"$regex": "^orders"}, "secs_running": {"$gte": 2}}},
            ]
        )
        return [int(one["command"]["getMore"]) async for one in operations]
