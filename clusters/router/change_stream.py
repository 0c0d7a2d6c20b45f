"""Change streams through the stand-in router: one cursor per shard, merged by resume token, a getMore at a time.

An imitation of a mongos above the shards: empty batches, gating and error labels are this file's. It must not know
how commands arrive, and must not put a deadline on a shard getMore: that one hangs is what the project shows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bson.timestamp import Timestamp

from clusters.quirks import Quirks
from clusters.router import codes
from clusters.router.errors import RESUMABLE, RouterError
from clusters.router.monitor import Monitor
from clusters.router.shard_cursor import ShardCursor, kill_cursors
from clusters.router.shard_list import ShardList
from clusters.router.shared import Shared
from clusters.router.stream import Stream
from clusters.router.stream_fetch import StreamFetch
from clusters.router.stream_get_more import GetMore
from clusters.router.stream_open import Opened, Opening, all_open, common_start, open_on_shards, to_be_discarded
from clusters.router.stream_request import COLLECTIONLESS, StreamRequest
from clusters.wire.pool import Pools

CURSOR_TIMEOUT: Final = 600.0
"""Seconds; `cursorTimeoutMillis` of a mongos."""
SESSION_TIMEOUT: Final = 1800.0
"""Seconds; a session's life, `localLogicalSessionTimeoutMinutes`."""


@dataclass(frozen=True, slots=True)
class IdleLimits:
    """Seconds without a getMore until a stream's cursors are killed: of a stream outside of any session, and in one."""

    cursor: float = CURSOR_TIMEOUT
    session: float = SESSION_TIMEOUT


@contextmanager
def _labelled() -> Iterator[None]:
    """An error that the router finds gets the label that a mongos gives its code; what a shard says has it already."""
    try:
        yield
    except RouterError as error:
        if error.code not in codes.RESUMABLE or RESUMABLE in error.labels:
            raise
        raise RouterError(error.code, error.code_name, str(error), [*error.labels, RESUMABLE]) from error


class ChangeStreams:
    """`pools` are of internal connections. `shards` gives the cluster's shards as they are now: name -> set name;
    `is_sharded` says whether a namespace is a sharded collection.

    A client that goes away leaves its cursors, as with a mongos; they are killed when they have been idle.
    """

    def __init__(
        self,
        monitor: Monitor,
        pools: Pools,
        shards: Callable[[], Awaitable[Mapping[str, str]]],
        is_sharded: Callable[[str], Awaitable[bool]],
        limits: IdleLimits,
        server: Quirks | None = None,
    ) -> None:
        self._monitor = monitor
        self._pools = pools
        self._shards = ShardList(shards, monitor.cluster_time)
        self._start = Shared(self._common_start)
        self._is_sharded = is_sharded
        self._limits = limits
        self._merged = (server or Quirks()).cluster_commands
        self._fetch = StreamFetch(monitor, self._shards, self._join)
        self._streams: dict[int, Stream] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """The reply to an aggregate that begins with $changeStream; its first batch is always empty, as a mongos's is.

        Raises RouterError or CommandFailed.
        """
        request = StreamRequest.of(command, merged=self._merged)
        with _labelled():
            sharded = request.collection != COLLECTIONLESS and await self._is_sharded(request.namespace)
            shards = await self._shards.now()
            start = None if request.has_start else await self._start.fresh()
            opened = await self._opened(request, shards, start)
        cursor_id = random.getrandbits(62) + 1
        stream = self._streams[cursor_id] = Stream(request, opened, told_of_shards=sharded)
        self._rest(cursor_id, stream)
        return stream.reply(cursor_id, "firstBatch", ())

    async def get_more(self, command: dict[str, Any]) -> dict[str, Any]:
        """At least one event, or an empty batch after maxTimeMS. Raises RouterError or CommandFailed."""
        cursor_id = int(command["getMore"])
        stream, asked = self._checked(cursor_id, command)
        stream.in_use = True
        try:
            with _labelled():
                events = await self._fetch.next_batch(stream, asked)
        except BaseException:  # also where the client goes away: a server kills the cursor of an interrupted getMore
            self._spawn(self._finish([cursor_id]))
            raise
        finally:
            stream.in_use = False
            self._rest(cursor_id, stream)
        if stream.merge.ended:
            self._spawn(self._finish([cursor_id]))
        return stream.reply(cursor_id, "nextBatch", events)

    def owns(self, cursor_id: int) -> bool:
        return cursor_id in self._streams

    async def kill(self, cursor_ids: Sequence[int]) -> list[int]:
        """Kill those that are ours and return them. A client getMore that waits on one ends with CursorKilled."""
        ours = [one for one in cursor_ids if one in self._streams]
        await self._finish(ours)
        return ours

    def table(self) -> list[dict[str, Any]]:
        """The shard getMores that have been sent and have not returned; `seconds` since when."""
        return [
            {
                "cursorId": cursor_id,
                "ns": stream.request.namespace,
                "comment": stream.request.comment,
                "shard": cursor.shard,
                "member": cursor.host,
                "shardCursorId": cursor.cursor_id,
                "seconds": in_flight[0],
                "maxTimeMS": in_flight[1],
            }
            for cursor_id, stream in self._streams.items()
            for cursor in stream.cursors.values()
            if (in_flight := cursor.in_flight) is not None
        ]

    async def close(self) -> None:
        """Kill every shard cursor, each member bounded by KILL_DEADLINE."""
        await self._finish(list(self._streams))
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _common_start(self) -> Timestamp:
        return await common_start(self._monitor, self._pools, self._shards.latest.values())

    def _checked(self, cursor_id: int, command: Mapping[str, Any]) -> tuple[Stream, GetMore]:
        stream = self._streams.get(cursor_id)
        if stream is None:
            raise RouterError(43, "CursorNotFound", f"cursor id {cursor_id} not found; it was killed or timed out")
        asked = GetMore.of(command, stream.request)
        if stream.in_use:
            raise RouterError(12051, "CursorInUse", f"cursor id {cursor_id} is in use by another getMore")
        return stream, asked

    async def _join(self, stream: Stream, shards: Mapping[str, str], start: Timestamp) -> None:
        """Cursors on shards that are new since the stream was opened."""
        opened = await self._opened(stream.request, shards, start)
        stream.join(opened)
        if stream.failure is not None:
            # Killed meanwhile, when these were not there yet.
            self._spawn(self._discard([cursor for cursor, _batch in opened.values()]))
            raise stream.failure

    async def _opened(self, request: StreamRequest, shards: Mapping[str, str], start: Timestamp | None) -> Opened:
        """A cursor on each of the shards; where one cannot be had, or the client goes, none is left."""
        opening = open_on_shards(self._monitor, self._pools, shards, request, start)
        try:
            return await all_open(opening)
        except BaseException:
            self._spawn(self._give_up(opening))
            raise

    # ending

    async def _give_up(self, opening: Opening) -> None:
        await self._discard(await to_be_discarded(opening))

    async def _finish(self, cursor_ids: Sequence[int]) -> None:
        streams = [stream for one in cursor_ids if (stream := self._streams.pop(one, None)) is not None]
        for stream in streams:
            if stream.idle is not None:
                stream.idle.cancel()
            stream.fail(RouterError(237, "CursorKilled", "the change stream's cursor was killed"))
        await self._discard([cursor for stream in streams for cursor in stream.cursors.values()])
        # What killCursors did not free (a frozen member) is left to the member; its connection is closed here.
        fetches = [task for stream in streams for task in stream.fetches.values()]
        for task in fetches:
            task.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    async def _discard(self, cursors: Sequence[ShardCursor]) -> None:
        try:
            await kill_cursors(self._pools, cursors)
        finally:
            for one in cursors:
                one.release()

    def _rest(self, cursor_id: int, stream: Stream) -> None:
        """From now on the stream is idle. One timer a stream, moved on when it rings: getMores are many."""
        loop = asyncio.get_running_loop()
        stream.used = loop.time()
        if stream.idle is None:
            self._wind(cursor_id, stream)

    def _wind(self, cursor_id: int, stream: Stream) -> None:
        limit = self._limits.cursor if stream.request.lsid is None else self._limits.session
        ring = asyncio.get_running_loop().time() if stream.in_use else stream.used
        stream.idle = asyncio.get_running_loop().call_at(ring + limit, self._rang, cursor_id, limit)

    def _rang(self, cursor_id: int, limit: float) -> None:
        stream = self._streams.get(cursor_id)
        if stream is None:
            return
        if stream.in_use or asyncio.get_running_loop().time() - stream.used < limit:
            self._wind(cursor_id, stream)
        else:
            self._spawn(self._finish([cursor_id]))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """What the client need not wait for; `close` does."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
