"""Sharded collections whose ranges lie where they must, and the ways in which routers come to hold an old table of one.

All that changes a table is said to the config servers and to the shards: a router that is not asked learns nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import MaxKey, Timestamp
from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from clusters import admin
from clusters.cluster import Cluster, primary_of
from clusters.errors import ClusterError
from clusters.guard import FailPointOff, Ledger
from clusters.wire.connection import CommandFailed
from harness.stage import SHARD_KEY

DDL_DEADLINE: Final = 60.0
"""Seconds for a command that changes a table."""
BALANCER_STARTS: Final = (11601, 194)
"""What a move gets shortly after the config servers have a new primary: their balancer is starting (6.0.5)."""
MOVE_TRIES: Final = 20
MAJORITY: Final = {"writeConcern": admin.MAJORITY}
STALE_CONFIG: Final = 13388
FAIL_POINT: Final = "failCommand"
MIDDLE: Final = 75
"""Where B's upper chunk is split."""


@dataclass(frozen=True, slots=True)
class Places:
    """The shards in their order: A below 0, B [0, 50) and [50, 100), C the rest."""

    a: str
    b: str
    c: str

    @classmethod
    def of(cls, cluster: Cluster) -> Places:
        first, second, third, *_ = (shard.name for shard in cluster.topology.shards)
        return cls(first, second, third)


async def lay_out(cluster: Cluster, namespace: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """A new collection over A, B and C with these documents, each with a `region`.

    Its ranges come to B before the last comes to C, so that B's version is behind the collection's: a split there makes
    routers stale for B alone (measured on 6.0.5).
    """
    database = namespace.partition(".")[0]
    places = Places.of(cluster)
    async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
        await client.admin.command("enableSharding", database, primaryShard=places.a)
        await client.admin.command("shardCollection", namespace, key={SHARD_KEY: 1})
        for least, most, shard in ((0, 50, places.b), (50, 100, places.b), (100, MaxKey(), places.c)):
            await move(cluster, namespace, least, most, shard)
        await _fill(client, namespace, documents)


async def _fill(
    client: AsyncMongoClient[dict[str, Any]], namespace: str, documents: Sequence[Mapping[str, Any]]
) -> None:
    database, _, collection = namespace.partition(".")
    target = client[database].get_collection(collection, write_concern=WriteConcern("majority"))
    await target.insert_many([dict(one) for one in documents])


async def recreate(cluster: Cluster, namespace: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """Drop it, and lay it out again."""
    database, _, collection = namespace.partition(".")
    async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
        await client[database].drop_collection(collection)
    await lay_out(cluster, namespace, documents)


async def move(cluster: Cluster, namespace: str, least: Any, most: Any, shard: str) -> None:
    """A range to a shard. Raises CommandFailed, ClusterError."""
    await move_range(cluster, namespace, {SHARD_KEY: least}, {SHARD_KEY: most}, shard)


async def move_range(
    cluster: Cluster, namespace: str, lower: Mapping[str, Any], upper: Mapping[str, Any], shard: str, **more: Any
) -> None:
    """What has a shard key from `lower` up to `upper` to a shard; a chunk that reaches over is split (6.0 or later).
    `more`: further fields of the command. Raises CommandFailed, ClusterError."""
    assert cluster.topology.config is not None
    bounds = {"min": dict(lower), "max": dict(upper), "toShard": shard, **more}
    command = {"_configsvrMoveRange": namespace, **bounds, **MAJORITY}
    for tries_left in reversed(range(MOVE_TRIES)):
        config = await primary_of(cluster, cluster.topology.config.name)
        try:
            async with admin.connected(config.host) as connection:
                await connection.command("admin", command, deadline=DDL_DEADLINE)
            return
        except CommandFailed as error:
            if error.code not in BALANCER_STARTS or not tries_left:
                raise
            await asyncio.sleep(0.25)  # it tells nobody when it has started


async def split(cluster: Cluster, namespace: str) -> None:
    """Split B's upper chunk on B itself. Raises ClusterError where B's version is not behind the collection's."""
    places = Places.of(cluster)
    found = await _collection(cluster, namespace)
    majors = await _majors(cluster, found["uuid"])
    if majors[places.b] >= max(majors.values()):
        raise ClusterError(f"{namespace}: the version of {places.b} is not behind: {majors}; a split tells nobody")
    primary = await primary_of(cluster, places.b)
    upper = {"shard": places.b, "min": {SHARD_KEY: 50}, "max": {SHARD_KEY: 100}}
    command = split_chunk(found, upper, {SHARD_KEY: MIDDLE})
    async with admin.connected(primary.host) as connection:
        await connection.command("admin", command, deadline=DDL_DEADLINE)


def split_chunk(collection: Mapping[str, Any], chunk: Mapping[str, Any], middle: Mapping[str, Any]) -> dict[str, Any]:
    """What a router says to the primary of the chunk's shard; both as the config servers have them."""
    return {
        "splitChunk": collection["_id"],
        "from": chunk["shard"],
        "min": chunk["min"],
        "max": chunk["max"],
        "keyPattern": collection["key"],
        "epoch": collection["lastmodEpoch"],
        "timestamp": collection["timestamp"],
        "splitKeys": [dict(middle)],
    }


async def move_upper(cluster: Cluster, namespace: str) -> None:
    """B's upper chunk to A: both get a new version."""
    await move(cluster, namespace, 50, 100, Places.of(cluster).a)


async def pretend(cluster: Cluster, namespace: str, ledger: Ledger) -> int:
    """Let B answer the next find of a router as if that were stale, naming no version that it wants: the empty error of
    the seed. How often such a fail point had been run into before; see `pretended`."""
    places = Places.of(cluster)
    found = await _collection(cluster, namespace)
    primary = await primary_of(cluster, places.b)
    data = {
        "failCommands": ["find"],
        "failInternalCommands": True,
        "namespace": namespace,
        "errorCode": STALE_CONFIG,
        "errorExtraInfo": {
            "ns": namespace,
            "vReceived": {"e": found["lastmodEpoch"], "t": found["timestamp"], "v": Timestamp(0, 0)},
            "shardId": places.b,
        },
    }
    ledger.open(FailPointOff(primary.host, FAIL_POINT), "fault", f"one error of {primary.name}")
    command = {"configureFailPoint": FAIL_POINT, "mode": {"times": 1}, "data": data}
    async with admin.connected(primary.host) as connection:
        # The reply has the count as it was before this use of it (measured on 6.0.5).
        return int((await connection.command("admin", command, deadline=DDL_DEADLINE))["count"])


async def pretended(cluster: Cluster, before: int) -> bool:
    """Whether that error was given, once."""
    primary = await primary_of(cluster, Places.of(cluster).b)
    async with admin.connected(primary.host) as connection:
        return (
            int((await admin.fail_point(connection, FAIL_POINT, deadline=DDL_DEADLINE))["timesEntered"]) == before + 1
        )


async def make_unsharded(cluster: Cluster, namespace: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """A collection on A alone, in a database of its own."""
    database = namespace.partition(".")[0]
    async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
        await client.admin.command("enableSharding", database, primaryShard=Places.of(cluster).a)
        await _fill(client, namespace, documents)


async def move_primary(cluster: Cluster, namespace: str) -> None:
    """Its database from A to B, said to A itself."""
    database = namespace.partition(".")[0]
    places = Places.of(cluster)
    found = await _on_config(cluster, "databases", {"_id": database})
    primary = await primary_of(cluster, places.a)
    command = {
        "_shardsvrMovePrimary": database,
        "to": places.b,
        "databaseVersion": found[0]["version"],
        **MAJORITY,
    }
    async with admin.connected(primary.host) as connection:
        await connection.command("admin", command, deadline=DDL_DEADLINE)


async def _collection(cluster: Cluster, namespace: str) -> dict[str, Any]:
    (found,) = await _on_config(cluster, "collections", {"_id": namespace})
    return found


async def _majors(cluster: Cluster, uuid: Any) -> dict[str, int]:
    """The highest major version of the chunks of each shard."""
    majors: dict[str, int] = {}
    for chunk in await _on_config(cluster, "chunks", {"uuid": uuid}):
        majors[chunk["shard"]] = max(majors.get(chunk["shard"], 0), chunk["lastmod"].time)
    return majors


async def _on_config(cluster: Cluster, collection: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    assert cluster.topology.config is not None
    config = await primary_of(cluster, cluster.topology.config.name)
    async with admin.connected(config.host) as connection:
        asked = {"find": collection, "filter": query, "singleBatch": True, "batchSize": 1000}
        reply = await connection.command("config", asked, deadline=DDL_DEADLINE)
    found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return found
