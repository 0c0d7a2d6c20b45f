"""A shard leaves the cluster and comes back through the router, in the states a mongos tells."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import OperationFailure

from clusters import local
from clusters.topology import sharded_cluster

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_a_shard_is_drained_removed_and_added_again() -> None:
    cluster = await local.bring_up(sharded_cluster(2, 1), "tests-shards")
    try:
        async with cluster.client() as client:
            admin, config = client.admin, client.config
            await admin.command("enableSharding", "app", primaryShard="shard0")
            await admin.command("shardCollection", "app.orders", key={"region": 1})
            await client.app.orders.insert_many([{"region": n} for n in range(-5, 5)])
            await admin.command("moveRange", "app.orders", min={"region": 0}, toShard="shard1")
            await admin.command("enableSharding", "other", primaryShard="shard1")
            await client.other.plain.insert_one({"kept": True})

            async def remove() -> dict[str, Any]:
                reply: dict[str, Any] = await admin.command("removeShard", "shard1")
                return reply

            begun = await remove()
            assert (begun["state"], begun["dbsToMove"]) == ("started", ["other"])
            assert (await remove())["state"] == "ongoing"
            await admin.command("movePrimary", "other", to="shard0")
            async for chunk in config.chunks.find({"shard": "shard1"}):
                namespace = (await config.collections.find({"uuid": chunk["uuid"]}).to_list())[0]["_id"]
                await admin.command("moveRange", namespace, min=chunk["min"], toShard="shard0")
            assert (await remove())["state"] == "completed"
            assert [one["_id"] for one in (await admin.command("listShards"))["shards"]] == ["shard0"]
            assert await client.app.orders.count_documents({}) == 10
            assert await client.other.plain.count_documents({"kept": True}) == 1

            member = cluster.members["shard1-0"]
            address = f"shard1/{member.host}"
            with pytest.raises(OperationFailure, match="exists in another"):
                await admin.command("addShard", address, name="shard1")
            async with member.client() as direct:
                for name in await direct.list_database_names():
                    if name not in ("admin", "config", "local"):
                        await direct.drop_database(name)
            assert (await admin.command("addShard", address, name="shard1"))["shardAdded"] == "shard1"
            await admin.command("moveRange", "app.orders", min={"region": 0}, toShard="shard1")
            await client.app.orders.insert_one({"region": 3})
            assert await client.app.orders.count_documents({}) == 11
    finally:
        await cluster.down()
