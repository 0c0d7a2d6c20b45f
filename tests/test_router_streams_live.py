"""Change streams over two shards as a driver sees them through the router: order, resuming, images, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure
from pymongo.read_preferences import Secondary

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from router_streams_parts import DATABASE, DEADLINE, Orders, cursors_of, orders_on, read, room, until, watch

pytestmark = pytest.mark.live


@pytest.fixture
async def orders(sharded: LocalCluster) -> AsyncIterator[Orders]:
    async with orders_on(sharded) as orders:
        yield orders


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["documentKey"]["_id"] for event in events if "documentKey" in event]


async def test_events_of_two_shards_come_once_in_the_order_of_their_writes(orders: Orders) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert(range(12))
        events = await read(stream, 12)
    assert numbers(events) == list(range(12))
    times = [event["clusterTime"] for event in events]
    assert times == sorted(times)
    assert {event["fullDocument"]["region"] for event in events} == {-1, 1}
    assert not any("$sortKey" in event for event in events)


async def test_an_update_comes_with_its_post_image_only_where_it_is_asked_for(orders: Orders) -> None:
    await orders.update(0)
    async with (
        await watch(orders.collection, full_document="updateLookup") as with_image,
        await watch(orders.collection) as without,
    ):
        await orders.update(7)
        assert [event["fullDocument"]["seq"] for event in await read(with_image, 2)] == [7, 7]
        assert ["fullDocument" in event for event in await read(without, 2)] == [False, False]


async def test_the_stages_of_the_client_see_the_post_image(orders: Orders) -> None:
    await orders.update(0)
    match = {"$match": {"fullDocument.seq": {"$gte": 2}}}
    async with await watch(orders.collection, [match], full_document="updateLookup") as stream:
        for seq in (1, 2):
            await orders.update(seq)
            await read_nothing_or(stream, 2 if seq == 2 else 0)


async def read_nothing_or(stream: Any, count: int) -> None:
    if count:
        events = await read(stream, count)
        assert all(event["updateDescription"]["updatedFields"]["seq"] == count for event in events)
    else:
        assert await stream.try_next() is None


@pytest.mark.parametrize("how", ["resume_after", "start_after"])
async def test_resuming_after_any_event_gives_exactly_the_rest(orders: Orders, how: str) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert(range(8))
        events = await read(stream, 8)
    for index in range(7):
        async with await watch(orders.collection, **{how: events[index]["_id"]}) as stream:
            assert numbers(await read(stream, 7 - index)) == list(range(index + 1, 8))


async def test_resuming_after_an_empty_batch_gives_exactly_what_came_later(orders: Orders) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert([1, 2])
        await read(stream, 2)
        last_event = stream.resume_token
        async with asyncio.timeout(DEADLINE):
            while stream.resume_token == last_event:
                assert await stream.try_next() is None
        token = stream.resume_token
    await orders.insert([3, 4])
    async with await watch(orders.collection, resume_after=token) as stream:
        assert numbers(await read(stream, 2)) == [3, 4]


async def test_a_start_time_includes_the_event_of_that_time(orders: Orders) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert(range(6))
        events = await read(stream, 6)
    for index in (0, 3):
        at = events[index]["clusterTime"]
        async with await watch(orders.collection, start_at_operation_time=at, batch_size=2) as stream:
            assert numbers(await read(stream, 6 - index)) == list(range(index, 6))
        after = Timestamp(at.time, at.inc + 1)
        async with await watch(orders.collection, start_at_operation_time=after) as stream:
            assert numbers(await read(stream, 5 - index)) == list(range(index + 1, 6))


async def test_a_stream_sees_no_write_acknowledged_before_it_was_opened_and_every_later_one(orders: Orders) -> None:
    streams: list[Any] = []
    for n in range(0, 24, 4):
        await orders.insert([n, n + 1])
        streams.append(await watch(orders.collection))
        await orders.insert([n + 2, n + 3])
    for index, stream in enumerate(streams):
        first = 4 * index + 2
        assert numbers(await read(stream, 24 - first)) == list(range(first, 24))
        await stream.close()


async def test_the_start_holds_for_writes_that_no_router_has_seen(orders: Orders) -> None:
    # Written straight to the primaries, so that only the stream itself can tell one shard of the other's time.
    lower, upper = await orders.shards_of_the_halves()
    async with (
        room(orders) as inside,
        (await primary_of(orders.cluster, lower)).client() as first,
        (await primary_of(orders.cluster, upper)).client() as second,
    ):
        for n in range(0, 40, 20):
            for before in range(n, n + 10):
                await first[DATABASE][orders.name].insert_one({"_id": before, "region": -1})
            cursor = await inside.open({"fullDocument": "default"})
            await second[DATABASE][orders.name].insert_one({"_id": n + 10, "region": 1})
            await first[DATABASE][orders.name].insert_one({"_id": n + 11, "region": -1})
            assert numbers(await inside.read(cursor, 2, maxTimeMS=100)) == [n + 10, n + 11]


async def test_a_drop_ends_the_stream_and_a_new_one_can_start_after_it(orders: Orders) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert([1, 2])
        await orders.collection.drop()
        events = await read_while_alive(stream, -1)
        token = stream.resume_token
    assert [event["operationType"] for event in events] == ["insert", "insert", "drop", "invalidate"]
    await orders.spread()
    await orders.insert([3])
    async with await watch(orders.collection, start_after=token) as stream:
        later = await read_while_alive(stream, 3)
    # Each shard drops its part at a time of its own. After an invalidate a shard swallows its own one, not its drop.
    assert [event["operationType"] for event in later] in (["insert"], ["drop", "insert"])


async def read_while_alive(stream: Any, last: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(DEADLINE):
        while stream.alive and last not in numbers(events):
            event = await stream.try_next()
            events += [event] if event is not None else []
    return events


async def test_a_resume_token_whose_event_is_gone_is_refused_with_280(orders: Orders) -> None:
    async with await watch(orders.collection) as stream:
        await orders.insert([2, 3, 4])
        events = await read(stream, 3)
    data = events[0]["_id"]["_data"]
    assert data.endswith("2B040004")  # the document's _id, 2, in a KeyString
    gone = {"_data": data.removesuffix("2B040004") + "2B020004"}
    with pytest.raises(OperationFailure) as refused:
        async with await watch(orders.collection, resume_after=gone) as stream:
            await read(stream, 1)
    assert refused.value.code == 280
    assert refused.value.has_error_label("NonResumableChangeStreamError")


async def test_a_chunk_that_moves_to_a_shard_without_any_goes_by_unseen(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        orders = Orders(sharded, client, "moving")
        await client.admin.command("shardCollection", orders.namespace, key={"region": 1})
        project = {"$project": {"documentKey": 1}}
        async with await watch(orders.collection, [project]) as stream:
            await orders.insert([0, 1])
            await orders.move_upper_half()
            await orders.insert([2, 3])
            events = await read(stream, 4)
        await orders.collection.drop()
    assert [set(event) for event in events] == [{"_id", "documentKey"}] * 4
    assert numbers(events) == [0, 1, 2, 3]


async def test_a_collection_that_is_not_sharded_nor_there_yet_can_be_watched(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        plain = client["streams_new"]["plain"]
        async with await watch(plain, full_document="updateLookup") as stream:
            await plain.insert_one({"_id": 1})
            await plain.update_one({"_id": 1}, {"$set": {"a": 2}})
            events = await read(stream, 2)
        await client.drop_database("streams_new")
    assert [event["operationType"] for event in events] == ["insert", "update"]
    assert events[1]["fullDocument"] == {"_id": 1, "a": 2}


async def test_read_preference_and_comment_reach_the_cursor_on_every_shard(orders: Orders) -> None:
    reading = orders.client.get_database(DATABASE, read_preference=Secondary())[orders.name]
    async with await watch(reading, full_document="updateLookup", comment={"run": orders.name}) as stream:
        await stream.try_next()
        found = await cursors_of(orders.cluster, orders.name)
    assert sorted(member.spec.set_name for member, _on_secondary, _comment in found) == ["shard0", "shard1"]
    assert all(secondary for _member, secondary, _comment in found)
    assert all(comment == {"run": orders.name} for _shard, _secondary_, comment in found)


@asynccontextmanager
async def failing(orders: Orders, shard: str, **how: Any) -> AsyncIterator[None]:
    """The shard's primary does so with aggregates of this collection."""
    data = {"failCommands": ["aggregate"], "namespace": orders.namespace, "failInternalCommands": True, **how}
    async with (await primary_of(orders.cluster, shard)).client() as client:
        await client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)
        try:
            yield
        finally:
            await client.admin.command("configureFailPoint", "failCommand", mode="off")


async def test_a_stream_that_one_shard_refuses_leaves_no_cursor_on_a_slower_one(orders: Orders) -> None:
    slow = failing(orders, "shard0", blockConnection=True, blockTimeMS=700)
    async with slow, failing(orders, "shard1", errorCode=13):
        with pytest.raises(OperationFailure, match="failCommand"):
            await watch(orders.collection, comment={"run": orders.name})
        # Switched off only when the blocked aggregate goes on; then it opens its cursor.
    await asyncio.sleep(0.5)

    async def freed() -> bool:
        return not await cursors_of(orders.cluster, orders.name)

    await until(freed, "the slower shard's cursor is gone")


async def test_closing_the_stream_frees_the_cursors_of_the_shards(orders: Orders) -> None:
    stream = await watch(orders.collection, comment={"run": orders.name})
    await stream.try_next()
    assert len(await cursors_of(orders.cluster, orders.name)) == 2
    await stream.close()

    async def freed() -> bool:
        return not await cursors_of(orders.cluster, orders.name)

    await until(freed, "the shard cursors are gone")
