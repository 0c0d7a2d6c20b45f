"""What clients ask and set of the cluster as a whole, and how they end what runs in it."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed
from router_parts import DEADLINE, count_on, of_shard, orders, said, session, to_router, until

pytestmark = pytest.mark.live

Stages = list[dict[str, Any]]

OF_A_MONGOS = (
    "abortReshardCollection", "abortTransaction", "addShard", "addShardToZone", "aggregate", "authenticate",
    "availableQueryOptions", "balancerCollectionStatus", "balancerStart", "balancerStatus", "balancerStop",
    "buildInfo", "cleanupReshardCollection", "clearJumboFlag", "clearLog", "collMod", "collStats",
    "commitReshardCollection", "commitTransaction", "compact", "compactStructuredEncryptionData",
    "configureCollectionBalancing", "configureFailPoint", "connPoolStats", "connPoolSync", "connectionStatus",
    "convertToCapped", "count", "create", "createIndexes", "createRole", "createUser", "currentOp", "dataSize",
    "dbStats", "delete", "distinct", "drop", "dropAllRolesFromDatabase", "dropAllUsersFromDatabase",
    "dropConnections", "dropDatabase", "dropIndexes", "dropRole", "dropUser", "echo", "enableSharding",
    "endSessions", "explain", "features", "filemd5", "find", "findAndModify", "flushRouterConfig", "fsync",
    "getClusterParameter", "getCmdLineOpts", "getDefaultRWConcern", "getDiagnosticData", "getLog", "getMore",
    "getParameter", "getShardMap", "getShardVersion", "getnonce", "grantPrivilegesToRole", "grantRolesToRole",
    "grantRolesToUser", "hello", "hostInfo", "insert", "invalidateUserCache", "isMaster", "isdbgrid",
    "killAllSessions", "killAllSessionsByPattern", "killCursors", "killOp", "killSessions", "listCollections",
    "listCommands", "listDatabases", "listIndexes", "listShards", "lockInfo", "logMessage", "logRotate", "logout",
    "mapReduce", "mergeChunks", "moveChunk", "movePrimary", "moveRange", "multicast", "netstat", "ping",
    "planCacheClear", "planCacheClearFilters", "planCacheListFilters", "planCacheSetFilter", "profile",
    "refineCollectionShardKey", "refreshLogicalSessionCacheNow", "refreshSessions", "removeShard",
    "removeShardFromZone", "renameCollection", "repairShardedCollectionChunksHistory", "replSetGetStatus",
    "reshardCollection", "revokePrivilegesFromRole", "revokeRolesFromRole", "revokeRolesFromUser", "rolesInfo",
    "rotateCertificates", "saslContinue", "saslStart", "serverStatus", "setAllowMigrations",
    "setClusterParameter", "setDefaultRWConcern", "setFeatureCompatibilityVersion", "setIndexCommitQuorum",
    "setParameter", "setProfilingFilterGlobally", "setUserWriteBlockMode", "shardCollection", "shutdown", "split",
    "splitVector", "startRecordingTraffic", "startSession", "stopRecordingTraffic", "update", "updateRole",
    "updateUser", "updateZoneKeyRange", "usersInfo", "validate", "validateDBMetadata", "waitForFailPoint",
    "whatsmysni", "whatsmyuri",
)  # fmt: skip
"""Commands of a 6.0 mongos, but for those that only servers and its own tests say."""


async def test_every_command_of_a_mongos_is_done_or_refused_by_name(sharded: LocalCluster) -> None:
    connection = await to_router(sharded)
    done = set((await connection.command("admin", {"listCommands": 1}))["commands"])
    for name in OF_A_MONGOS:
        if name not in done:
            reply = await said(connection, {name: 1})
            assert reply["code"] in (18, 115, 263), (name, reply)
            assert "the stand-in router" in reply["errmsg"]
            assert "\n" not in reply["errmsg"]
    assert (await said(connection, {"noSuchCommand": 1}))["code"] == 59
    counted = (await connection.command("admin", {"serverStatus": 1}))["metrics"]["commands"]
    assert counted["<UNKNOWN>"]["total"] >= 1
    assert "noSuchCommand" not in counted
    connection.close()


async def test_the_end_of_the_log_can_be_read_through_the_router(sharded: LocalCluster) -> None:
    assert sharded.router is not None and sharded.router_process is not None
    host, _, port = sharded.router.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x16\x03\x01\x02\x00 no message")
    assert await reader.read() == b""
    writer.close()
    connection = await to_router(sharded)
    told = (await connection.command("admin", {"getLog": "global"}))["log"]
    connection.close()
    assert "TLS" in told[-1]
    assert told == sharded.router_process.log_lines()[-len(told) :]


async def test_what_shells_and_drivers_ask_at_connect_has_an_answer(sharded: LocalCluster) -> None:
    connection = await to_router(sharded)

    async def asked(command: dict[str, Any]) -> dict[str, Any]:
        return await connection.command("admin", command, deadline=DEADLINE)

    assert (await asked({"whatsmyuri": 1}))["you"].startswith("127.0.0.1:")
    assert (await asked({"isdbgrid": 1}))["isdbgrid"] == 1
    assert (await asked({"getLog": "startupWarnings"}))["log"] == []
    assert (await asked({"getParameter": 1, "featureCompatibilityVersion": 1}))["featureCompatibilityVersion"] == {
        "version": "6.0"
    }
    assert (await asked({"connectionStatus": 1, "showPrivileges": True}))["authInfo"]["authenticatedUsers"] == []
    assert (await asked({"getCmdLineOpts": 1}))["parsed"]["sharding"]["configDB"]
    shards = await asked({"getShardMap": 1})
    assert set(shards["map"]) == {"config", "shard0", "shard1"}
    assert {shards["hosts"][member.host] for member in of_shard(sharded, "shard1")} == {"shard1"}
    assert (await asked({"netstat": 1}))["configserver"] == shards["map"]["config"]
    for command in ({"buildInfo": 1}, {"hostInfo": 1}, {"features": 1}, {"serverStatus": 1}, {"usersInfo": 1}):
        assert (await asked(command))["ok"] == 1
    for command in ({"atlasVersion": 1}, {"getFreeMonitoringStatus": 1}):  # nor does a mongos know them
        assert (await said(connection, command))["code"] == 59
    connection.close()


async def test_what_is_set_for_the_cluster_is_read_back(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        admin = collection.database.client.admin
        before = await admin.command("getDefaultRWConcern")
        await admin.command("setDefaultRWConcern", 1, defaultReadConcern={"level": "majority"})
        assert (await admin.command("getDefaultRWConcern"))["defaultReadConcern"] == {"level": "majority"}
        await admin.command("setDefaultRWConcern", 1, defaultReadConcern=before["defaultReadConcern"])
        images = {"preAndPostImages": {"expireAfterSeconds": Int64(100)}}
        await admin.command("setClusterParameter", {"changeStreamOptions": images})
        (told,) = (await admin.command("getClusterParameter", "changeStreamOptions"))["clusterParameters"]
        assert told["preAndPostImages"] == images["preAndPostImages"]
        await admin.command(
            "setClusterParameter", {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": "off"}}}
        )
        assert (await admin.command("balancerStatus"))["mode"] == "off"
        await admin.command("balancerStart")
        try:
            assert (await admin.command("balancerStatus"))["mode"] == "full"
        finally:
            await admin.command("balancerStop")
        assert (await admin.command("balancerCollectionStatus", collection.full_name))["balancerCompliant"]
        version = await admin.command("getShardVersion", collection.full_name)
        assert version["versionEpoch"]
        for command, code in (("removeShard", 70), ("balancerCollectionStatus", 118), ("getShardVersion", 118)):
            with pytest.raises(OperationFailure) as caught:
                await admin.command(command, "no.where" if code == 118 else "nowhere")
            assert caught.value.code == code, command


async def test_a_killed_session_takes_its_cursors_and_ops_along(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n} for n in range(-50, 50)])
        connection, victim = await to_router(sharded), await to_router(sharded)
        name, doomed, other = collection.database.name, session(), session()
        cursors = {}
        for lsid in (doomed, other):
            opened = await connection.command(name, {"find": "orders", "batchSize": 2, "lsid": lsid})
            cursors[lsid["id"]] = Int64(opened["cursor"]["id"])
        slow = {"find": "orders", "filter": {"$where": "sleep(20) || true"}, "lsid": doomed, "comment": "slow one"}
        running = asyncio.create_task(victim.command(name, slow, deadline=DEADLINE))
        await _until_running(sharded, "slow one")
        assert (await connection.command("admin", {"killSessions": [doomed]}))["ok"] == 1
        with pytest.raises(CommandFailed) as caught:
            await running
        assert caught.value.code in (11601, 11602)
        for lsid, gone in ((doomed, True), (other, False)):
            more = {"getMore": cursors[lsid["id"]], "collection": "orders", "lsid": lsid}
            assert ((await said(connection, more, name)).get("code") == 43) is gone
        opened = await connection.command(name, {"find": "orders", "batchSize": 2, "lsid": other})
        everybody = hashlib.sha256(b"").digest()  # the id of no user
        await connection.command("admin", {"killAllSessionsByPattern": [{"lsid": {**other, "uid": everybody}}]})
        more = {"getMore": Int64(opened["cursor"]["id"]), "collection": "orders", "lsid": other}
        assert (await said(connection, more, name))["code"] == 43
        made = await connection.command("admin", {"startSession": 1})
        assert made["timeoutMinutes"] == 30
        ends: list[dict[str, Any]] = [
            {"refreshSessions": [made["id"]]},
            {"endSessions": [made["id"]]},
            {"killAllSessions": []},
        ]
        for command in ends:
            assert (await connection.command("admin", command))["ok"] == 1
        connection.close()
        victim.close()


@pytest.mark.parametrize("whose", ["shard1", "router"])
async def test_a_killed_op_ends_with_an_error_and_its_connection_goes_on(sharded: LocalCluster, whose: str) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n} for n in range(50)])
        victim, name = await to_router(sharded), collection.database.name
        slow = {"find": "orders", "filter": {"region": {"$gte": 0}, "$where": "sleep(100) || true"}, "comment": whose}
        running = asyncio.create_task(victim.command(name, slow, deadline=DEADLINE))
        found = await _until_running(sharded, whose, local=whose == "router")
        assert str(found["opid"]).startswith(f"{whose}:")
        await collection.database.client.admin.command("killOp", 1, op=found["opid"])
        with pytest.raises(CommandFailed) as caught:
            await running
        assert caught.value.code == 11601
        assert (await victim.command(name, {"ping": 1}))["ok"] == 1
        for op in (12345678, "shard0:12345678"):
            assert (await victim.command("admin", {"killOp": 1, "op": op}))["ok"] == 1
        victim.close()


async def _until_running(cluster: LocalCluster, comment: str, *, local: bool = False) -> dict[str, Any]:
    """The op with this comment, on a shard or in the router, once it is there."""
    stages: Stages = [
        {"$currentOp": {"localOps": True} if local else {"allUsers": True}},
        {"$match": {"command.comment": comment, "shard": {"$exists": not local, "$ne": "router host"}}},
    ]
    found: list[dict[str, Any]] = []
    async with cluster.client() as client:

        async def seen() -> bool:
            found[:] = await (await client.admin.aggregate(stages)).to_list()
            return bool(found)

        await until(seen, f"an op with the comment {comment!r}")
    return found[0]


async def test_plan_caches_and_filters_are_those_of_every_owning_shard(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        database = collection.database
        await collection.create_index("kind")
        await database.command("planCacheSetFilter", "orders", query={"kind": 1}, indexes=["kind_1"])
        listed = await database.command("planCacheListFilters", "orders")
        assert {one: len(listed[one]["filters"]) for one in ("shard0", "shard1")} == {"shard0": 1, "shard1": 1}
        await database.command("planCacheClearFilters", "orders")
        assert (await database.command("planCacheListFilters", "orders"))["shard1"]["filters"] == []
        assert (await database.command("planCacheClear", "orders"))["ok"] == 1
        assert await count_on(sharded, "shard1", collection, {}) == 0
