"""The stand-in router on shards that run no cluster commands: what it does by targeting and merging, and refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from aftermath import Place
from clusters import local, ready
from clusters.local import OwnCluster
from clusters.topology import sharded_cluster
from version_parts import installed

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

Client = AsyncMongoClient[dict[str, Any]]
WIRE_VERSIONS = {"4.4.2": 9, "5.0.4": 13}


@pytest.fixture(scope="module", params=WIRE_VERSIONS)
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[OwnCluster]:
    with pytest.MonkeyPatch.context() as patch:
        installed(patch, Place(tmp_path_factory.mktemp("before-6")), request.param)
        one = await local.bring_up(sharded_cluster(2, 1).of_version(request.param), "tests-before-6")
        try:
            yield one
        finally:
            await one.down()


@pytest.fixture
async def client(cluster: OwnCluster) -> AsyncIterator[Client]:
    """With nine documents, four of them on the first shard."""
    async with cluster.client(serverSelectionTimeoutMS=20_000) as one:
        await ready.spread(cluster, one, "shop.orders", "region")
        await one.shop.orders.insert_many([{"_id": number, "region": number % 2} for number in range(1, 10)])
        yield one
        await one.drop_database("shop")


async def open_cursors(cluster: OwnCluster) -> int:
    """Idle cursors on the collection, on all shards."""
    found = 0
    for shard in cluster.topology.shards:
        host = cluster.members[shard.members[0].name].host
        async with AsyncMongoClient[dict[str, Any]](f"mongodb://{host}/", directConnection=True) as direct:
            stages: list[dict[str, Any]] = [
                {"$currentOp": {"idleCursors": True}},
                {"$match": {"type": "idleCursor", "ns": "shop.orders"}},
            ]
            found += len(await (await direct.admin.aggregate(stages)).to_list())
    return found


async def test_drivers_are_told_what_these_servers_understand(cluster: OwnCluster, client: Client) -> None:
    hello = await client.admin.command("hello")
    assert (hello["msg"], hello["maxWireVersion"]) == ("isdbgrid", WIRE_VERSIONS[cluster.server.version])
    assert (await client.admin.command("buildInfo"))["version"] == cluster.server.version


async def test_a_find_over_several_shards_has_each_document_once_in_however_many_batches(client: Client) -> None:
    found = [one["_id"] async for one in client.shop.orders.find({}, batch_size=2)]
    assert sorted(found) == list(range(1, 10))
    assert len([one async for one in client.shop.orders.find({}, limit=7, batch_size=3)]) == 7
    assert await client.shop.orders.estimated_document_count() == 9


async def test_a_cursor_over_several_shards_that_is_closed_is_gone_on_the_shards_too(
    cluster: OwnCluster, client: Client
) -> None:
    cursor = client.shop.orders.find({}, batch_size=2)
    await cursor.next()
    assert await open_cursors(cluster) >= 1
    await cursor.close()
    assert await open_cursors(cluster) == 0


async def test_on_one_shard_a_find_may_sort_and_an_aggregate_may_compute(client: Client) -> None:
    found = [one["_id"] async for one in client.shop.orders.find({"region": 1}, sort=[("_id", -1)], batch_size=2)]
    assert found == [9, 7, 5, 3, 1]
    assert await client.shop.orders.count_documents({"region": 1}) == 5
    await client.shop.unsharded.insert_many([{"_id": 2}, {"_id": 1}])
    assert [one["_id"] async for one in client.shop.unsharded.find({}, sort=[("_id", 1)])] == [1, 2]


async def test_what_several_shards_would_have_to_add_up_is_refused(client: Client) -> None:
    for asked in (
        client.shop.orders.find({}, sort=[("_id", 1)]).to_list(),
        client.shop.orders.count_documents({}),
        client.shop.command("explain", {"find": "orders"}),
        client.admin.command("moveRange", "shop.orders", min={"region": 1}, toShard="shard0"),
    ):
        with pytest.raises(OperationFailure) as raised:
            await asked
        assert raised.value.code in (115, 59), raised.value


async def test_writes_of_many_documents_reach_all_shards_and_their_counts_add_up(client: Client) -> None:
    updated = await client.shop.orders.update_many({"_id": {"$lt": 6}}, {"$set": {"paid": True}})
    assert (updated.matched_count, updated.modified_count) == (5, 5)
    assert len([one async for one in client.shop.orders.find({"paid": True})]) == 5
    assert (await client.shop.orders.delete_many({"paid": True})).deleted_count == 5
    assert len([one async for one in client.shop.orders.find({})]) == 4


async def test_options_of_a_collection_are_set_on_all_its_shards(client: Client) -> None:
    await client.shop.command("collMod", "orders", validator={"paid": {"$exists": True}})
    for region in (0, 1):
        with pytest.raises(OperationFailure) as raised:
            await client.shop.orders.insert_one({"region": region})
        assert raised.value.code == 121


async def test_a_chunk_moves_with_its_documents(client: Client) -> None:
    await client.admin.command("moveChunk", "shop.orders", find={"region": 0}, to="shard1")
    assert await client.config.chunks.distinct("shard", {"min.region": {"$exists": True}}) == ["shard1"]
    assert sorted([one["_id"] async for one in client.shop.orders.find({})]) == list(range(1, 10))


async def test_a_stream_has_both_shards_events_in_order_and_goes_on_from_any_token(client: Client) -> None:
    orders = client.shop.orders
    async with await orders.watch(full_document="updateLookup") as stream:
        for number in range(1, 10):
            await orders.update_one({"_id": number, "region": number % 2}, {"$set": {"seen": number}})
        events = [await stream.next() for _ in range(9)]
    assert [one["documentKey"]["_id"] for one in events] == list(range(1, 10))
    assert [one["fullDocument"]["seen"] for one in events] == list(range(1, 10))
    for taken in (1, 4, 8):
        async with await orders.watch(resume_after=events[taken - 1]["_id"]) as stream:
            rest = [await stream.next() for _ in range(9 - taken)]
        assert [one["_id"] for one in rest] == [one["_id"] for one in events[taken:]]
