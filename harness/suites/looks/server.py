"""What looks share: the one member, its fail points for the time of a block, its ops by their comment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from clusters import admin
from clusters.local import OwnCluster
from clusters.wire.connection import Connection
from harness.injected import injected
from harness.watchers.canary import READ_ANYWHERE
from harness.watchers.inside import EVERYBODYS

DEADLINE: Final = 10.0
"""Seconds for each question to the member."""


def host_of(cluster: OwnCluster) -> str:
    """Of the one member, through its proxy."""
    (member,) = cluster.members.values()
    return member.host


def asking(cluster: OwnCluster) -> AbstractAsyncContextManager[Connection]:
    """A connection to the member. Raises ClusterError."""
    return admin.connected(host_of(cluster), deadline=DEADLINE)


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
            "pipeline": [EVERYBODYS, {"$match": match}],
            "cursor": {"batchSize": 10_000},
            **READ_ANYWHERE,
        },
        deadline=DEADLINE,
    )
    entries: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return entries
