"""Ready: a majority write, sent as an application would send it, was acknowledged by every shard.

An open port says nothing, a primary not yet writable says yes to a ping. On the way the ownership marker is written and
the bring-up's fail points are switched off. Provider-neutral.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

from clusters import admin
from clusters.cluster import Cluster, of_set, primary_of
from clusters.commandline import BRING_UP_FAIL_POINTS
from clusters.wire.connection import CommandFailed, Connection

DATABASE: Final = "mongofault"
"""The harness's own database in a cluster that is its own."""
MARKER: Final = "owner"
CANARY: Final = "canary"
"""A collection with documents on every shard: what Ready writes, and what a watcher's causal read finds."""

WRITES_PER_ROUND = 16
FAIL_POINT_UNKNOWN = 82


async def wait(cluster: Cluster, *, deadline: float) -> None:
    """Until the cluster is Ready. Raises ClusterError, or TimeoutError after `deadline` seconds."""
    async with (
        asyncio.timeout(deadline),
        # Not retried: the stand-in router passes un-numbered writes on as they are, also for a hashed key.
        cluster.client(retryWrites=False, serverSelectionTimeoutMS=int(deadline * 1000)) as client,
    ):
        await mark(client, cluster.name)
        if cluster.topology.sharded:
            await client.admin.command(
                "shardCollection",
                f"{DATABASE}.{CANARY}",
                key={"_id": "hashed"},
                numInitialChunks=2 * len(cluster.topology.shards),
            )
        await _write_to_every_shard(cluster, client)
        await _bring_up_fail_points_off(cluster)


async def mark(client: AsyncMongoClient[dict[str, Any]], name: str) -> None:
    """Write the ownership marker: only a cluster that bears it is ever written to or broken."""
    owner = client[DATABASE].get_collection(MARKER, write_concern=WriteConcern("majority"))
    await owner.update_one({"_id": "owner"}, {"$set": {"cluster": name}}, upsert=True)


async def owner_of(client: AsyncMongoClient[dict[str, Any]]) -> str | None:
    """The name in the cluster's ownership marker, None where there is no marker."""
    try:
        marker = await client[DATABASE][MARKER].find_one({"_id": "owner"})
    except OperationFailure:
        return None
    return None if marker is None else str(marker["cluster"])


async def _write_to_every_shard(cluster: Cluster, client: AsyncMongoClient[dict[str, Any]]) -> None:
    canary = client[DATABASE].get_collection(CANARY, write_concern=WriteConcern("majority"))
    missing = {shard.name for shard in cluster.topology.shards}
    written = 0
    while missing:
        await canary.insert_many([{"_id": written + index} for index in range(WRITES_PER_ROUND)])
        written += WRITES_PER_ROUND
        for shard in list(missing):
            if await _documents(cluster, shard):
                missing.remove(shard)


async def _documents(cluster: Cluster, shard: str) -> int:
    primary = await primary_of(cluster, shard)
    connection = await Connection.open(primary.host, deadline=10)
    try:
        return int((await connection.command(DATABASE, {"count": CANARY}, deadline=10))["n"])
    finally:
        connection.close()


async def _bring_up_fail_points_off(cluster: Cluster) -> None:
    async def switch_off(host: str) -> None:
        connection = await admin.connect(host, deadline=10)
        try:
            for name in BRING_UP_FAIL_POINTS:
                try:
                    await admin.fail_point_off(connection, name)
                except CommandFailed as error:
                    if error.code != FAIL_POINT_UNKNOWN:
                        raise
        finally:
            connection.close()

    async with asyncio.TaskGroup() as group:
        for one in cluster.topology.sets():
            for member in of_set(cluster, one.name):
                group.create_task(switch_off(member.host))
