"""The catalog's commands and the router's view of the cluster, with an unchanged driver."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pymongo.errors import CollectionInvalid, OperationFailure

from clusters.local import LocalCluster
from router_parts import count_on, of_shard, orders, router_host, to_router, until

pytestmark = pytest.mark.live

Stages = list[dict[str, Any]]


async def test_databases_collections_and_indexes_come_and_go(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database, client = collection.database, collection.database.client
        await database.create_collection("plain")
        await database.create_collection("capped", capped=True, size=4096)
        with pytest.raises(CollectionInvalid):
            await database.create_collection("plain")
        assert await collection.create_index([("kind", 1)], unique=False) == "kind_1"
        assert await database.made_by_its_index.create_index("a") == "a_1"
        assert sorted(await database.list_collection_names()) == ["capped", "made_by_its_index", "orders", "plain"]
        assert sorted(await collection.index_information()) == ["_id_", "kind_1", "region_1"]
        for shard in ("shard0", "shard1"):
            async with of_shard(sharded, shard)[0].client() as member:
                assert "kind_1" in await member[database.name].orders.index_information()
        await collection.drop_index("kind_1")
        assert sorted(await collection.index_information()) == ["_id_", "region_1"]
        await database.capped.drop()
        assert "capped" not in await database.list_collection_names()
        assert database.name in await client.list_database_names()
        await client.drop_database(database.name)
        assert database.name not in await client.list_database_names()
        assert await database.list_collection_names() == []
        assert await collection.find().to_list() == []


async def test_a_dropped_sharded_collection_is_gone_from_every_shard(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n} for n in range(-5, 5)])
        await collection.drop()
        assert await count_on(sharded, "shard0", collection, {}) == 0
        assert await count_on(sharded, "shard1", collection, {}) == 0
        await collection.insert_one({"region": 3})  # unsharded now
        assert await collection.count_documents({}) == 1


async def test_a_listing_in_several_batches_goes_on_where_it_began(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        name = collection.database.name
        for number in range(5):
            await collection.database.create_collection(f"c{number}")
        connection = await to_router(sharded)
        reply = await connection.command(name, {"listCollections": 1, "cursor": {"batchSize": 2}})
        found = [one["name"] for one in reply["cursor"]["firstBatch"]]
        while identity := reply["cursor"]["id"]:
            more = {"getMore": identity, "collection": "$cmd.listCollections", "batchSize": 2}
            reply = await connection.command(name, more)
            found += [one["name"] for one in reply["cursor"]["nextBatch"]]
        assert sorted(found) == ["c0", "c1", "c2", "c3", "c4", "orders"]
        first = await connection.command(name, {"listCollections": 1, "cursor": {"batchSize": 1}})
        kill = {"killCursors": "$cmd.listCollections", "cursors": [first["cursor"]["id"]]}
        assert (await connection.command(name, kill))["cursorsKilled"] == [first["cursor"]["id"]]
        connection.close()


async def test_databases_are_listed_with_the_sizes_of_all_shards_added_up(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n} for n in range(-5, 5)])
        listed = await (await collection.database.client.list_databases()).to_list()
        entry = {one["name"]: one for one in listed}
        assert {"admin", "config"} <= set(entry)
        assert "local" not in entry
        mine = entry[collection.database.name]
        assert set(mine["shards"]) == {"shard0", "shard1"}
        assert mine["sizeOnDisk"] == sum(mine["shards"].values())


async def test_chunks_are_split_and_moved(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        admin, name = collection.database.client.admin, collection.full_name
        await collection.insert_many([{"region": n} for n in range(-30, 0)])
        await admin.command("split", name, middle={"region": -20})
        await admin.command("split", name, middle={"region": -10})
        await admin.command("moveChunk", name, find={"region": -15}, to="shard1")
        await admin.command("moveRange", name, min={"region": -10}, max={"region": -5}, toShard="shard1")
        chunks = await collection.database.client.config.chunks.find(
            {"uuid": (await collection.database.client.config.collections.find({"_id": name}).to_list())[0]["uuid"]}
        ).to_list()
        edges = {one["min"]["region"]: one["shard"] for one in chunks if isinstance(one["min"]["region"], int)}
        assert edges == {-20: "shard1", -10: "shard1", -5: "shard0", 0: "shard1"}
        assert await collection.count_documents({}) == 30
        with pytest.raises(OperationFailure, match=r"config\.shards to move to, found 'nowhere'"):
            await admin.command("moveRange", name, min={"region": 0}, toShard="nowhere")
        with pytest.raises(OperationFailure, match="not sharded"):
            await admin.command("moveRange", f"{collection.database.name}.plain", min={"a": 0}, toShard="shard1")


async def test_the_router_tells_shards_version_and_itself(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        shards = (await client.admin.command("listShards"))["shards"]
        assert sorted(one["_id"] for one in shards) == ["shard0", "shard1"]
        status = await client.admin.command("serverStatus")
        assert (status["process"], status["version"]) == ("mongofault stand-in router", sharded.server.version)
        assert status["metrics"]["commands"]["listShards"]["total"] >= 1
        own = await client.admin.command("mongofaultRouterStatus")
        assert (own["kind"], own["routerHost"]) == ("stand-in", router_host(sharded).host)
        assert (await client.admin.command("getParameter", 1, cursorTimeoutMillis=1))["cursorTimeoutMillis"] > 0


async def test_current_op_tells_the_ops_of_every_member_and_names_its_shard(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        stages: Stages = [
            {"$currentOp": {"allUsers": True, "idleConnections": True}},
            {"$group": {"_id": "$shard", "hosts": {"$addToSet": "$host"}}},
        ]
        found = {one["_id"]: len(one["hosts"]) for one in await (await client.admin.aggregate(stages)).to_list()}
        assert found == {"config": 1, "router host": 1, "shard0": 3, "shard1": 3}


async def test_current_op_is_not_held_up_by_a_frozen_member(sharded: LocalCluster) -> None:
    frozen = of_shard(sharded, "shard1")[2]
    stages: Stages = [
        {"$currentOp": {"allUsers": True, "idleConnections": True}},
        {"$group": {"_id": "$host"}},
        {"$count": "members"},
    ]
    async with sharded.client() as client:
        frozen.freeze()
        try:
            began = time.monotonic()
            found = await (await client.admin.aggregate(stages)).to_list()
            seconds = time.monotonic() - began
        finally:
            frozen.thaw()
    assert found == [{"members": 7}]
    assert seconds < 5
    assert sharded.router_process is not None
    log = sharded.router_process.log.read_text()
    assert f"$currentOp is without the ops of member {frozen.host}: no answer within 2 s" in log


async def test_local_ops_are_the_routers_own(sharded: LocalCluster) -> None:
    stages: Stages = [{"$currentOp": {"localOps": True}}, {"$match": {"command.comment": "slow one"}}]
    async with orders(sharded) as collection, sharded.client() as other:
        await collection.insert_one({"region": 1})
        slow = asyncio.create_task(collection.find({"$where": "sleep(1000) || true"}, comment="slow one").to_list())
        found: list[dict[str, Any]] = []

        async def seen() -> bool:
            found[:] = await (await other.admin.aggregate(stages)).to_list()
            return bool(found)

        await until(seen, "the slow find is among the router's ops")
        assert (found[0]["ns"], found[0]["op"]) == (collection.full_name, "command")
        assert found[0]["desc"].startswith("stand-in router")
        assert len(await slow) == 1
