"""What the live tests of the router share: a sharded collection of their own, and raw access to the parts behind it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bson.binary import Binary
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from clusters.local import LocalCluster
from clusters.member import LocalMember
from clusters.wire.connection import CommandFailed, Connection

Orders = AsyncCollection[dict[str, Any]]

DEADLINE = 30.0


@asynccontextmanager
async def orders(cluster: LocalCluster, **options: Any) -> AsyncIterator[Orders]:
    """`NEW.orders`, sharded by `region`: below 0 on shard0, from 0 on shard1. Its database is dropped afterwards."""
    async with AsyncMongoClient[dict[str, Any]](cluster.uri, **options) as client:
        name = f"router_{uuid.uuid4().hex[:8]}"
        await client.admin.command("enableSharding", name, primaryShard="shard0")
        await client.admin.command("shardCollection", f"{name}.orders", key={"region": 1})
        await client.admin.command("moveRange", f"{name}.orders", min={"region": 0}, toShard="shard1")
        try:
            yield client[name].orders
        finally:
            await client.drop_database(name)


async def to_router(cluster: LocalCluster) -> Connection:
    """A raw connection to the router."""
    assert cluster.router is not None
    return await Connection.open(cluster.router, deadline=DEADLINE)


def router_host(cluster: LocalCluster) -> LocalMember:
    assert cluster.topology.router_host is not None
    return cluster.members[cluster.topology.router_host.members[0].name]


def of_shard(cluster: LocalCluster, shard: str) -> list[LocalMember]:
    return [member for member in cluster.members.values() if member.spec.set_name == shard]


async def count_on(cluster: LocalCluster, shard: str, collection: Orders, query: Mapping[str, Any]) -> int:
    """Documents on the shard's primary, orphans included, asked past the router."""
    async with of_shard(cluster, shard)[0].client() as client:
        found: int = await client[collection.database.name][collection.name].count_documents(query)
        return found


async def move_unseen(cluster: LocalCluster, namespace: str, lower: int, upper: int, shard: str) -> None:
    """Move regions from `lower` up to `upper` without the router's knowledge: asked of the config primary.

    Never back to where they were: the donor keeps its orphans for 15 minutes and takes no range with orphans.
    """
    assert cluster.topology.config is not None
    config = cluster.members[cluster.topology.config.members[0].name]
    connection = await Connection.open(config.host, deadline=DEADLINE, internal=True)
    try:
        bounds = {"min": {"region": lower}, "max": {"region": upper}, "toShard": shard}
        await connection.command(
            "admin",
            {"_configsvrMoveRange": namespace, **bounds, "writeConcern": {"w": "majority"}},
            deadline=DEADLINE,
        )
    finally:
        connection.close()


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask again and again until it holds, for things that nobody announces."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {DEADLINE:g} s") from None


async def said(
    connection: Connection,
    command: Mapping[str, Any],
    database: str = "admin",
    kept: Sequence[str] = ("ok", "code", "codeName", "errmsg", "errorLabels", "writeConcernError"),
) -> dict[str, Any]:
    """What the reply says, failed or not: of the router and of a member of a set it can be the same."""
    try:
        reply = await connection.command(database, command, deadline=DEADLINE)
    except CommandFailed as error:
        reply = dict(error.reply)
    return {one: reply[one] for one in kept if one in reply}


def session() -> dict[str, Any]:
    """A new `lsid`."""
    return {"id": Binary(uuid.uuid4().bytes, 4)}
