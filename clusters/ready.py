"""Ready: a majority write, sent as an application would send it, was acknowledged by every shard.

Where today's drivers refuse the server it is sent by raw wire.

An open port says nothing, a primary not yet writable says yes to a ping. On the way the ownership marker is written.
Provider-neutral.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

from clusters import admin, ownership, quirks
from clusters.cluster import Cluster, entrances

DATABASE: Final = ownership.DATABASE
CANARY: Final = "canary"
"""A collection with documents on every shard: what Ready writes, and what a watcher's causal read finds."""

CANARY_KEY: Final = "shard"
MIGRATION_TRIES: Final = 4
GIVEN_UP: Final = 125
"""CommandFailed, "commit clone failed": the shard that was to receive a range has not got it in time (6.0.5)."""


async def wait(cluster: Cluster, ledger_id: str, *, deadline: float) -> None:
    """Until the cluster is Ready, and bears the marker of the ledger. Raises TimeoutError after `deadline` seconds."""
    if not quirks.of_version(cluster.server.version).drivers:
        await asyncio.wait_for(_by_raw_wire(cluster, ledger_id), deadline)
        return
    async with (
        asyncio.timeout(deadline),
        cluster.client(serverSelectionTimeoutMS=int(deadline * 1000)) as client,
    ):
        if cluster.topology.sharded:
            await spread(cluster, client, f"{DATABASE}.{CANARY}", CANARY_KEY)
        marker = ownership.document(ownership.new(ledger_id, cluster.name, "up"))
        owner = client[DATABASE].get_collection(ownership.COLLECTION, write_concern=WriteConcern("majority"))
        await owner.replace_one({"_id": marker["_id"]}, marker, upsert=True)
        canary = client[DATABASE].get_collection(CANARY, write_concern=WriteConcern("majority"))
        await canary.insert_many([{CANARY_KEY: number} for number, _ in enumerate(cluster.topology.shards)])


async def _by_raw_wire(cluster: Cluster, ledger_id: str) -> None:
    async with ownership.asked(entrances(cluster)) as primary:
        await ownership.write(primary, ownership.new(ledger_id, cluster.name, "up"))
        written = {"insert": CANARY, "documents": [{CANARY_KEY: 0}], "writeConcern": admin.MAJORITY}
        await primary.command(DATABASE, written)


async def spread(cluster: Cluster, client: AsyncMongoClient[dict[str, Any]], namespace: str, key: str) -> None:
    """Shard a new collection by the range of one field: value i on the i-th shard."""
    database, _, _ = namespace.partition(".")
    shards = [shard.name for shard in cluster.topology.shards]
    by_range = quirks.of_version(cluster.server.version).move_range
    await client.admin.command("enableSharding", database, primaryShard=shards[0])
    await client.admin.command("shardCollection", namespace, key={key: 1})
    for value, shard in enumerate(shards):
        if value and by_range:
            await migrated(client, {"moveRange": namespace, "min": {key: value}, "toShard": shard})
        elif value:
            await client.admin.command("split", namespace, middle={key: value})
            await migrated(client, {"moveChunk": namespace, "find": {key: value}, "to": shard})


async def migrated(client: AsyncMongoClient[dict[str, Any]], command: Mapping[str, Any]) -> None:
    """A moveRange or moveChunk, asked for again where the shards have given it up, as a balancer would in its next
    round: they do where the members of the receiving one are behind its primary for long, after kills or on a busy
    machine. Raises OperationFailure."""
    for tries_left in reversed(range(MIGRATION_TRIES)):
        try:
            await client.admin.command(dict(command))
            return
        except OperationFailure as error:
            if error.code != GIVEN_UP or not tries_left:
                raise
        await asyncio.sleep(0.25)  # they tell nobody when they could
