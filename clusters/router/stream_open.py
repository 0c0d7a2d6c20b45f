"""Opening a change stream: one start for all shards, one cursor on a member of each.

Knows nothing of what is done with the cursors later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from bson.timestamp import Timestamp

from clusters.router.errors import RESUMABLE, RouterError
from clusters.router.members import FIND_DEADLINE, NOT_PRIMARY
from clusters.router.monitor import Monitor
from clusters.router.shard_cursor import KILL_DEADLINE, Batch, ShardCursor
from clusters.router.stream_request import StreamRequest
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from clusters.wire.pool import Pools

PING_DEADLINE = 5.0
OPEN_ATTEMPTS = 3

_RETRIED = NOT_PRIMARY | {6, 7, 89, 9001}
"""Codes of an aggregate after which another member is tried (driver specification "Retryable Reads")."""

Opened = dict[str, tuple[ShardCursor, Batch]]
Opening = Mapping[str, asyncio.Task[tuple[ShardCursor, Batch]]]


def open_on_shards(
    monitor: Monitor,
    pools: Pools,
    shards: Mapping[str, str],
    request: StreamRequest,
    start: Timestamp | None,
) -> Opening:
    """Begin to open a cursor on each shard (name -> set name), at `start` if that is given, else where the client said.

    Raises RouterError where there is no shard. What comes of it is `all_open`'s, or else `to_be_discarded`'s.
    """
    if not shards:
        raise RouterError(70, "ShardNotFound", "the cluster has no shards; add one with addShard")
    command = request.shard_command(start)
    return {
        shard: asyncio.create_task(_open(monitor, pools, shard, set_name, request, command))
        for shard, set_name in shards.items()
    }


async def all_open(opening: Opening) -> Opened:
    """Every shard's cursor. Raises the first RouterError or CommandFailed, and the other shards go on opening theirs.

    Bounded only where no member is found or no handshake is answered: an aggregate that a frozen member does not answer
    waits as it does behind a mongos.
    """
    done, _pending = await asyncio.wait(opening.values(), return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    return {shard: task.result() for shard, task in opening.items()}


async def to_be_discarded(opening: Opening) -> list[ShardCursor]:
    """The cursors of an opening that was given up. A command is not cut off where it soon ends by itself: its member
    would keep a cursor that nobody knows."""
    tasks = opening.values()
    _done, pending = await asyncio.wait(tasks, timeout=KILL_DEADLINE)
    for task in pending:
        task.cancel()
    opened = await asyncio.gather(*tasks, return_exceptions=True)
    return [one[0] for one in opened if not isinstance(one, BaseException)]


def unreachable(monitor: Monitor, host: str, what: str, error: Exception) -> RouterError:
    """What becomes of a lost connection: an error on which the driver resumes, on another member."""
    if isinstance(error, ConnectionLost | DeadlinePassed):
        monitor.note_failure(host)
    reason = str(error) or "no answer in time"
    return RouterError(6, "HostUnreachable", f"{host} was lost in {what}: {reason}; the driver may resume", [RESUMABLE])


async def common_start(monitor: Monitor, pools: Pools, sets: Iterable[str]) -> Timestamp:
    """T + 1: no write acknowledged before now has a later time than T, none begun from now on an earlier one.

    T is the highest cluster time of the shards' primaries; told to all of them, their next write is past it.
    """
    primaries = [await monitor.primary(one, deadline=FIND_DEADLINE) for one in sets]
    for _round in ("ask", "tell"):
        await asyncio.gather(*(_gossip(monitor, pools, one) for one in primaries))
    known = monitor.cluster_time()
    if known is None:
        raise RouterError(8, "UnknownError", "no shard primary told its $clusterTime; is it a replica set member?")
    time: Timestamp = known["clusterTime"]
    return Timestamp(time.time, time.inc + 1)


async def _gossip(monitor: Monitor, pools: Pools, host: str) -> None:
    known = monitor.cluster_time()
    command: dict[str, Any] = {"ping": 1} if known is None else {"ping": 1, "$clusterTime": known}
    try:
        async with asyncio.timeout(PING_DEADLINE), pools.to(host).connection() as connection:
            reply = await connection.command("admin", command)
    except (TimeoutError, ConnectionLost) as error:
        raise unreachable(monitor, host, "the ping before a change stream", error) from error
    monitor.note_cluster_time(reply.get("$clusterTime"))


async def _open(
    monitor: Monitor,
    pools: Pools,
    shard: str,
    set_name: str,
    request: StreamRequest,
    command: Mapping[str, Any],
) -> tuple[ShardCursor, Batch]:
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        host = await monitor.select(set_name, request.read_preference, deadline=FIND_DEADLINE)
        try:
            namespace = (request.database, request.collection)
            return await ShardCursor.open(pools, shard, host, namespace, command)
        except (ConnectionLost, DeadlinePassed) as error:
            lost = unreachable(monitor, host, "the aggregate of a change stream", error)
            if attempt == OPEN_ATTEMPTS:
                raise lost from error
        except CommandFailed as error:
            if error.code not in _RETRIED or attempt == OPEN_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
