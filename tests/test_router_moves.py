"""Chunks move behind the router's back while a client writes: nothing is lost, nothing is applied twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import InsertOne, UpdateOne

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.ready import GIVEN_UP, migrated
from router_parts import count_on, move_unseen, orders, session, to_router

pytestmark = pytest.mark.live


async def test_each_write_after_a_move_finds_its_new_shard(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"_id": n, "region": n, "n": 0} for n in range(-40, 0)])
        increment = {"$inc": {"n": 1}}
        for place, lower in enumerate(range(-40, 0, 8)):
            await move_unseen(sharded, collection.full_name, lower, lower + 8, "shard1")
            by_key, by_id, modified, new = lower, lower + 1, lower + 2, 1000 + place
            writes = [
                (await collection.update_one({"region": by_key}, increment)).modified_count,
                (await collection.update_one({"_id": by_id}, increment)).modified_count,
                await collection.find_one_and_update({"region": modified}, increment) is not None,
                (await collection.delete_one({"region": lower + 3})).deleted_count,
                (await collection.insert_one({"_id": new, "region": lower + 3, "n": 1})).acknowledged,
            ]
            assert writes == [1, 1, True, 1, True]
        totals = Counter({one["_id"]: one["n"] async for one in collection.find()})
        assert len(totals) == 40
        assert sum(totals.values()) == 5 * 4
        assert await count_on(sharded, "shard1", collection, {}) == 40


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_batch_over_moved_and_unmoved_ranges_applies_each_statement_once(
    sharded: LocalCluster, ordered: bool
) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"_id": n, "region": n, "n": 0} for n in range(-20, 20)])
        await move_unseen(sharded, collection.full_name, -10, -5, "shard1")
        statements: list[Any] = [UpdateOne({"region": n}, {"$inc": {"n": 1}}) for n in range(-20, 20)]
        statements[3:3] = [UpdateOne({"_id": -7}, {"$inc": {"n": 1}})]
        result = await collection.bulk_write(statements, ordered=ordered)
        assert (result.matched_count, result.modified_count) == (41, 41)
        await move_unseen(sharded, collection.full_name, -5, 0, "shard1")
        inserts = [InsertOne({"_id": 100 + n, "region": n, "n": 1}) for n in range(-20, 20)]
        assert (await collection.bulk_write(inserts, ordered=ordered)).inserted_count == 40
        counts = Counter([one["n"] async for one in collection.find()])
        assert counts == {1: 79, 2: 1}


@pytest.mark.parametrize("query", [{"region": -3}, {"_id": -3}], ids=["by key", "by id"])
async def test_a_write_resent_after_its_document_moved_is_answered_from_its_record(
    sharded: LocalCluster, query: dict[str, Any]
) -> None:
    """The record in config.transactions moves with the range; of a broadcast the donor has one as well."""
    async with orders(sharded) as collection:
        await collection.insert_one({"_id": -3, "region": -3, "n": 0})
        write = {
            "update": "orders",
            "updates": [{"q": query, "u": {"$inc": {"n": 1}}}],
            "lsid": session(),
            "txnNumber": Int64(1),
        }
        connection = await to_router(sharded)
        first = await connection.command(collection.database.name, write)
        await move_unseen(sharded, collection.full_name, -5, 0, "shard1")
        again = await connection.command(collection.database.name, write)
        assert [(one["n"], one["nModified"]) for one in (first, again)] == [(1, 1), (1, 1)]
        assert await collection.find_one({"_id": -3}) == {"_id": -3, "region": -3, "n": 1}
        connection.close()


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "un-numbered"])
async def test_clients_that_write_without_pause_notice_no_move(sharded: LocalCluster, numbered: bool) -> None:
    async with orders(sharded, retryWrites=numbered) as collection:
        keys = range(-30, 10)
        await collection.insert_many([{"_id": n, "region": n, "n": 0} for n in keys])
        acknowledged: Counter[int] = Counter()
        moving = True

        async def write(by: str) -> None:
            while moving:
                for key in keys:
                    result = await collection.update_one({by: key}, {"$inc": {"n": 1}})
                    acknowledged[key] += result.modified_count

        async def read() -> None:
            while moving:
                assert len(await collection.find({}, batch_size=7).to_list()) == len(keys)
                assert len(await (await collection.aggregate([{"$match": {}}], batchSize=7)).to_list()) == len(keys)

        async with asyncio.TaskGroup() as group:
            for task in (write("region"), write("_id"), read()):
                group.create_task(task)
            for lower in range(-30, 0, 6):
                await move_unseen(sharded, collection.full_name, lower, lower + 6, "shard1")
            moving = False
        applied = Counter({one["_id"]: one["n"] async for one in collection.find()})
        assert applied == acknowledged


async def test_a_collection_dropped_and_made_anew_behind_the_router_is_found(sharded: LocalCluster) -> None:
    """The second router of the cluster is the router host itself: it does what the first one is not told of."""
    async with orders(sharded) as collection:
        await collection.insert_one({"_id": 1, "region": 1})
        async with sharded.client(retryWrites=False) as other:
            database = other[collection.database.name]
            await database.plain.insert_one({"_id": 1})
            await collection.database.plain.update_one({"_id": 1}, {"$set": {"seen": 1}})
            for shard in (member for member in sharded.members.values() if member.name == "shard0-0"):
                async with shard.client() as client:
                    version = (await other.config.databases.find({"_id": database.name}).to_list())[0]["version"]
                    drop = {"databaseVersion": version, "writeConcern": {"w": "majority"}}
                    await client[database.name].command({"_shardsvrDropCollection": "orders", **drop})
                    key = {"shardKey": {"other": 1}}
                    await client[database.name].command({"_shardsvrCreateCollection": "orders", **key, **drop})
        await collection.insert_one({"_id": 2, "other": 5})
        assert (await collection.update_one({"other": 5}, {"$set": {"found": True}})).matched_count == 1
        assert await collection.find().to_list() == [{"_id": 2, "other": 5, "found": True}]


async def test_a_migration_that_the_shards_have_given_up_is_asked_for_again(sharded: LocalCluster) -> None:
    given_up = {"failCommands": ["_recvChunkCommit"], "errorCode": GIVEN_UP, "failInternalCommands": True}
    receives = await primary_of(sharded, "shard1")
    async with orders(sharded) as collection, sharded.client() as client, receives.client() as receiving:
        await collection.insert_many([{"_id": n, "region": n} for n in range(-4, 4)])
        move = {"moveRange": collection.full_name, "min": {"region": -2}, "max": {"region": 0}, "toShard": "shard1"}
        try:
            once = await receiving.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=given_up)
            await migrated(client, move)
            off = await receiving.admin.command("configureFailPoint", "failCommand", mode="off")
        finally:
            await receiving.admin.command("configureFailPoint", "failCommand", mode="off")
        assert off["count"] == once["count"] + 1
        assert await count_on(sharded, "shard1", collection, {}) == 6
