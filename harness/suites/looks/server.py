"""What looks share: the one member, its fail points for the time of a block, its ops by their comment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from clusters.local import OwnCluster
from clusters.wire.connection import Connection
from harness.injected import injected
from harness.watchers.canary import READ_ANYWHERE

DEADLINE: Final = 10.0
"""Seconds for each question to the member."""


def host_of(cluster: OwnCluster) -> str:
    """Of the one member, through its proxy."""
    (member,) = cluster.members.values()
    return member.host


@asynccontextmanager
async def asking(cluster: OwnCluster) -> AsyncIterator[Connection]:
    """A connection to the member. Raises what `Connection.open` raises."""
    connection = await Connection.open(host_of(cluster), deadline=DEADLINE)
    try:
        yield connection
    finally:
        connection.close()


@asynccontextmanager
async def fail_point(cluster: OwnCluster, point: str, data: str = "{}") -> AsyncIterator[None]:
    """On within the block; `data` as extended JSON. It is off when what it held has left."""
    options = [f"point={point}", f"data={data}", "proof=on"]
    async with injected(cluster, "fail-point", "primary", options=options):
        yield


async def ops(connection: Connection, match: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of `$currentOp` that match, whole."""
    reply = await connection.command(
        "admin",
        {
            "aggregate": 1,
            "pipeline": [
                {"$currentOp": {"allUsers": True, "idleConnections": False, "idleSessions": False}},
                {"$match": match},
            ],
            "cursor": {"batchSize": 10_000},
            **READ_ANYWHERE,
        },
        deadline=DEADLINE,
    )
    entries: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return entries
