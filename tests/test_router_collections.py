"""Collections, indexes and databases made and changed through the router: as on a replica set, and on every shard."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from clusters.local import LocalCluster
from clusters.wire.connection import Connection
from router_parts import DEADLINE, count_on, of_shard, orders, said, to_router

pytestmark = pytest.mark.live

Command = dict[str, Any]

ON_BOTH: list[Command] = [
    {"create": "plain"},
    {"create": "plain"},
    {"create": "capped", "capped": True, "size": 4096, "max": 10},
    {"create": "capless", "capped": True},
    {"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": True}},
    {"create": "readings", "timeseries": {"timeField": "t", "metaField": "m", "granularity": "minutes"}},
    {"create": "checked", "validator": {"a": {"$type": "int"}}, "validationLevel": "moderate"},
    {"create": "french", "collation": {"locale": "fr"}},
    {"create": "imaged", "changeStreamPreAndPostImages": {"enabled": True}},
    {"create": "shown", "viewOn": "plain", "pipeline": [{"$match": {"a": 1}}]},
    {"create": "misspelt", "validater": {}},
    {"create": "bad$name"},
    {"insert": "checked", "documents": [{"a": 1}]},
    {"createIndexes": "checked", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": True}]},
    {"createIndexes": "checked", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": True}]},
    {"createIndexes": "checked", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
    {"createIndexes": "checked", "indexes": [{"key": {"a": 1}}]},
    {"createIndexes": "checked", "indexes": []},
    {"createIndexes": "checked", "indexes": [{"key": {"t": 1}, "name": "t", "expireAfterSeconds": 60}]},
    {"createIndexes": "checked", "indexes": [{"key": {"q": 1}, "name": "q"}], "commitQuorum": "majority"},
    {"createIndexes": "shown", "indexes": [{"key": {"q": 1}, "name": "q"}]},
    {"createIndexes": "made", "indexes": [{"key": {"$**": 1}, "name": "all"}, {"key": {"x": "text"}, "name": "text"}]},
    {"collMod": "checked", "validator": {"a": {"$gt": 0}}, "validationAction": "warn"},
    {"collMod": "checked", "index": {"name": "t", "expireAfterSeconds": 90}},
    {"collMod": "checked", "index": {"keyPattern": {"q": 1}, "hidden": True}},
    {"collMod": "checked", "changeStreamPreAndPostImages": {"enabled": True}},
    {"collMod": "checked", "index": {"name": "nowhere", "hidden": True}},
    {"collMod": "shown", "viewOn": "plain", "pipeline": []},
    {"collMod": "nowhere", "validator": {}},
    {"dropIndexes": "checked", "index": "a_1"},
    {"dropIndexes": "checked", "index": {"q": 1}},
    {"dropIndexes": "checked", "index": ["t"]},
    {"dropIndexes": "checked", "index": "nowhere"},
    {"dropIndexes": "checked", "index": "_id_"},
    {"dropIndexes": "made", "index": "*"},
    {"dropIndexes": "nowhere", "index": "*"},
    {"convertToCapped": "imaged", "size": 4096},
    {"validate": "checked"},
    {"validate": "nowhere"},
    {"dataSize": "router_ddl.checked"},
    {"collStats": "shown"},
    {"explain": {"find": "checked"}, "verbosity": "loud"},
    {"explain": {"find": "checked"}, "verbosity": "queryPlanner"},
    {"drop": "french"},
    {"drop": "shown"},
]


@pytest.fixture
async def both(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[tuple[Connection, Connection]]:
    """The router, and the primary of a plain replica set for comparison; database router_ddl is dropped afterwards."""
    router = await to_router(sharded)
    async with replica_set.client() as client:
        await client.admin.command("ping")
        address = await client.primary
        assert address is not None
    primary = await Connection.open(f"{address[0]}:{address[1]}", deadline=DEADLINE)
    yield router, primary
    for one in (router, primary):
        await one.command("router_ddl", {"dropDatabase": 1}, deadline=DEADLINE)
        one.close()


async def test_what_makes_and_changes_collections_ends_as_on_a_replica_set(both: tuple[Connection, Connection]) -> None:
    for command in ON_BOTH:
        outcomes = [await said(one, command, "router_ddl", ("ok", "code", "codeName")) for one in both]
        assert outcomes[0] == outcomes[1], command
    for command in ({"from": "plain", "to": "renamed"}, {"from": "renamed", "to": "checked"},
                    {"from": "renamed", "to": "checked", "dropTarget": True}, {"from": "nowhere", "to": "x"},
                    {"from": "checked", "to": "checked"}):  # fmt: skip
        rename = {**command, "renameCollection": f"router_ddl.{command['from']}", "to": f"router_ddl.{command['to']}"}
        rename = {one: rename[one] for one in ("renameCollection", "to", "dropTarget") if one in rename}
        outcomes = [await said(one, rename, kept=("ok", "code", "codeName")) for one in both]
        assert outcomes[0] == outcomes[1], command
    assert await _contents(both[0]) == await _contents(both[1])


async def _contents(connection: Connection) -> dict[str, Any]:
    """Collections of router_ddl with their options and indexes, as the listings tell them, in batches of one."""
    listed = await _listed(connection, {"listCollections": 1, "cursor": {"batchSize": 1}})
    found = {}
    for one in listed:
        indexes = []
        if one["type"] != "view" and not one["name"].startswith("system."):
            indexes = await _listed(connection, {"listIndexes": one["name"], "cursor": {"batchSize": 1}})
        found[one["name"]] = (one["type"], one["options"], sorted(index["name"] for index in indexes))
    return found


async def _listed(connection: Connection, command: Command) -> list[dict[str, Any]]:
    reply = await connection.command("router_ddl", command, deadline=DEADLINE)
    found = list(reply["cursor"]["firstBatch"])
    while reply["cursor"]["id"]:
        collection = reply["cursor"]["ns"].partition(".")[2]
        more = {"getMore": reply["cursor"]["id"], "collection": collection, "batchSize": 1}
        reply = await connection.command("router_ddl", more, deadline=DEADLINE)
        found += reply["cursor"]["nextBatch"]
    return found


async def test_indexes_and_options_reach_every_shard(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database = collection.database
        made = await database.command("createIndexes", "orders", indexes=[{"key": {"kind": 1}, "name": "kind_1"}])
        assert {one.partition("/")[0]: two["numIndexesAfter"] for one, two in made["raw"].items()} == {
            "shard0": 3,
            "shard1": 3,
        }
        await database.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
        await database.command("collMod", "orders", index={"name": "kind_1", "hidden": True})
        for shard in ("shard0", "shard1"):
            async with of_shard(sharded, shard)[0].client() as member:
                (info,) = await (await member[database.name].list_collections(filter={"name": "orders"})).to_list()
                assert info["options"]["changeStreamPreAndPostImages"] == {"enabled": True}
                assert (await member[database.name].orders.index_information())["kind_1"]["hidden"]
        with pytest.raises(OperationFailure) as caught:
            await database.command("dropIndexes", "orders", index="nowhere")
        assert caught.value.code == 27
        assert caught.value.details is not None
        assert {one.partition("/")[0] for one in caught.value.details["raw"]} == {"shard0", "shard1"}
        await database.command("dropIndexes", "orders", index="*")
        assert sorted(await collection.index_information()) == ["_id_", "region_1"]


async def test_a_sharded_collection_is_renamed_over_another_and_keeps_its_documents(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database, admin = collection.database, collection.database.client.admin
        await collection.insert_many([{"region": n} for n in range(-3, 3)])
        await database.other.insert_one({"gone": True})
        with pytest.raises(OperationFailure, match="exists") as caught:
            await collection.rename("other")
        assert caught.value.code == 48
        await collection.rename("other", dropTarget=True)
        assert await database.other.count_documents({"region": {"$exists": True}}) == 6
        assert await database.other.count_documents({}) == 6
        assert await count_on(sharded, "shard1", database.other, {}) == 3
        assert await database.list_collection_names() == ["other"]
        with pytest.raises(OperationFailure, match="database nowhere_at_all"):
            await admin.command("renameCollection", f"{database.name}.other", to="nowhere_at_all.other")


async def test_a_shard_key_is_refined_and_writes_go_on(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        admin = collection.database.client.admin
        await collection.insert_many([{"region": n, "city": "x"} for n in range(-3, 3)])
        await collection.create_index([("region", 1), ("city", 1)])
        await admin.command("refineCollectionShardKey", collection.full_name, key={"region": 1, "city": 1})
        assert (await collection.update_one({"region": 1, "city": "x"}, {"$set": {"seen": 1}})).modified_count == 1
        found = await collection.database.client.config.collections.find_one({"_id": collection.full_name})
        assert found is not None
        assert found["key"] == {"region": 1, "city": 1}
        with pytest.raises(OperationFailure) as caught:
            await admin.command("refineCollectionShardKey", collection.full_name, key={"city": 1})
        assert caught.value.code == 72
        with pytest.raises(OperationFailure, match="convertToCapped a sharded") as caught:
            await collection.database.command("convertToCapped", "orders", size=4096)
        assert caught.value.code == 20


async def test_a_database_gets_another_primary_shard(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        admin, plain = collection.database.client.admin, collection.database.plain
        await plain.insert_many([{"n": n} for n in range(5)])
        await admin.command("movePrimary", collection.database.name, to="shard1")
        assert await count_on(sharded, "shard1", plain, {}) == 5
        assert (await plain.insert_one({"n": 5})).acknowledged
        assert await plain.count_documents({}) == 6
        with pytest.raises(OperationFailure, match=r"config\.shards to move to") as caught:
            await admin.command("movePrimary", collection.database.name, to="nowhere")
        assert caught.value.code == 70


async def test_sizes_are_those_of_all_shards_together(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database = collection.database
        await collection.insert_many([{"_id": n, "region": n, "fill": "x" * 100} for n in range(-10, 10)])
        stats = await database.command("collStats", "orders")
        assert (stats["sharded"], stats["count"], stats["nchunks"]) == (True, 20, 2)
        assert stats["size"] == sum(one["size"] for one in stats["shards"].values())
        assert set(stats["shards"]) == {"shard0", "shard1"}
        scaled = await database.command("collStats", "orders", scale=100)
        assert scaled["size"] == stats["size"] // 100
        for spelled in ("dataSize", "datasize"):
            assert (await database.command(spelled, collection.full_name))["numObjects"] == 20
        assert (await database.command("collstats", "orders"))["count"] == 20
        assert (await database.command("dbstats"))["objects"] == 20
        whole = await database.command("dbStats")
        assert (whole["objects"], whole["dataSize"]) == (20, stats["size"])
        assert sorted(one.partition("/")[0] for one in whole["raw"]) == ["shard0", "shard1"]
        checked = await database.command("validate", "orders")
        assert (checked["valid"], set(checked["raw"])) == (True, {"shard0", "shard1"})


async def test_explain_tells_what_each_shard_would_do(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database = collection.database
        await collection.insert_many([{"region": n} for n in range(-5, 5)])
        await database.plain.insert_many([{"n": n} for n in range(5)])
        await database.create_collection("shown", viewOn="orders", pipeline=[{"$match": {"region": {"$gt": 0}}}])

        async def explained(command: Command, verbosity: str = "executionStats") -> dict[str, Any]:
            reply: dict[str, Any] = await database.command("explain", command, verbosity=verbosity)
            return reply

        one = await explained({"find": "orders", "filter": {"region": 1}})
        assert one["queryPlanner"]["winningPlan"]["stage"] == "SINGLE_SHARD"
        assert (one["command"]["find"], one["executionStats"]["nReturned"]) == ("orders", 1)
        both = await explained({"find": "orders"})
        assert both["queryPlanner"]["winningPlan"]["stage"] == "SHARD_MERGE"
        grouped = {"aggregate": "orders", "pipeline": [{"$group": {"_id": None}}], "cursor": {}}
        assert set((await explained(grouped))["shards"]) == {"shard0", "shard1"}
        assert (await explained({"find": "shown"}, "queryPlanner"))["ok"] == 1
        for write in ({"update": "plain", "updates": [{"q": {"n": 1}, "u": {"$set": {"z": 1}}}]},
                      {"delete": "plain", "deletes": [{"q": {"n": 1}, "limit": 1}]},
                      {"findAndModify": "plain", "query": {"n": 1}, "remove": True}):  # fmt: skip
            plan = (await explained(write))["queryPlanner"]["winningPlan"]
            assert (plan["stage"], plan["shards"][0]["shardName"]) == ("SHARD_WRITE", "shard0")
        assert await database.plain.count_documents({"n": 1, "z": {"$exists": False}}) == 1
        assert (await explained({"count": "plain", "query": {"n": 1}}))["executionStats"]["totalDocsExamined"] == 5
        for command in ({"update": "orders", "updates": [{"q": {}, "u": {"$set": {"z": 1}}}]}, {"count": "shown"}):
            with pytest.raises(OperationFailure, match="of a collection that one shard has") as caught:
                await explained(command)
            assert caught.value.code == 115


async def test_out_and_merge_write_to_plain_and_sharded_targets(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database = collection.database
        admin = database.client.admin
        await collection.insert_many([{"_id": n, "region": n} for n in range(-5, 5)])
        await admin.command("shardCollection", f"{database.name}.merged", key={"_id": 1})
        other = f"{database.name}_{uuid.uuid4().hex[:4]}"
        await admin.command("enableSharding", other, primaryShard="shard1")
        try:
            await (await collection.aggregate([{"$out": "written"}])).to_list()
            await (await collection.aggregate([{"$out": {"db": other, "coll": "written"}}])).to_list()
            for into in ("merged", {"db": other, "coll": "merged"}):
                for _ in range(2):
                    await (await collection.aggregate([{"$merge": {"into": into}}])).to_list()
            for target in (database.written, database.merged, database.client[other].written,
                           database.client[other].merged):  # fmt: skip
                assert await target.count_documents({}) == 10
            with pytest.raises(OperationFailure, match="cannot be sharded"):
                await collection.aggregate([{"$out": "merged"}])
            with pytest.raises(OperationFailure, match="not found") as caught:
                await collection.aggregate([{"$out": {"db": "nowhere_at_all", "coll": "x"}}])
            assert caught.value.code == 26
        finally:
            await database.client.drop_database(other)
