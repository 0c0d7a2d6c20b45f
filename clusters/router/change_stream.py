"""Change streams through the stand-in router: one cursor per shard, merged by resume token, a getMore at a time.

An imitation of a mongos above the shards: empty batches, gating and error labels are this file's. It must not know
how commands arrive, and must not put a deadline on a shard getMore: that one hangs is what the project shows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from clusters.router.errors import RESUMABLE, RouterError
from clusters.router.monitor import Monitor
from clusters.router.shard_cursor import ShardCursor, kill_cursors
from clusters.router.stream import Stream
from clusters.router.stream_open import Opened, open_on_shards, unreachable
from clusters.router.stream_request import StreamRequest
from clusters.wire.connection import ConnectionLost, DeadlinePassed
from clusters.wire.pool import Pools

AWAIT_MS = 1000
"""How long a getMore waits that has no maxTimeMS, and the most a shard getMore is given (as a mongos does)."""
IDLE = 600.0
"""Seconds without a getMore until a stream's cursors are killed (`cursorTimeoutMillis` of a mongos)."""
NO_LIMIT = 1 << 31


class ChangeStreams:
    """`pools` are of internal connections. `shards` gives the cluster's shards as they are now: name -> set name.

    A client that goes away leaves its cursors, as with a mongos; they are killed after IDLE.
    """

    def __init__(self, monitor: Monitor, pools: Pools, shards: Callable[[], Awaitable[Mapping[str, str]]]) -> None:
        self._monitor = monitor
        self._pools = pools
        self._shards = shards
        self._streams: dict[int, Stream] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """The reply to an aggregate that begins with $changeStream; its first batch is always empty.

        Raises RouterError or CommandFailed.
        """
        request = StreamRequest.of(command)
        opened: Opened = {}
        try:
            await open_on_shards(self._monitor, self._pools, await self._shards(), request, opened)
        except BaseException:
            self._spawn(self._discard([cursor for cursor, _batch in opened.values()]))
            raise
        cursor_id = random.getrandbits(62) + 1
        stream = self._streams[cursor_id] = Stream(request, opened)
        self._rest(cursor_id, stream)
        return stream.reply(cursor_id, "firstBatch", ())

    async def get_more(self, command: dict[str, Any]) -> dict[str, Any]:
        """At least one event, or an empty batch after maxTimeMS. Raises RouterError or CommandFailed."""
        cursor_id = int(command["getMore"])
        stream = self._checked(cursor_id, command)
        stream.in_use = True
        if stream.idle is not None:
            stream.idle.cancel()
        try:
            events = await self._next_batch(stream, command)
        except Exception:
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

    # delivering

    def _checked(self, cursor_id: int, command: Mapping[str, Any]) -> Stream:
        stream = self._streams.get(cursor_id)
        if stream is None:
            raise RouterError(43, "CursorNotFound", f"cursor id {cursor_id} not found; it was killed or timed out")
        asked = f"{command.get('$db')}.{command.get('collection')}"
        if asked != stream.request.namespace:
            raise RouterError(
                13, "Unauthorized", f"cursor id {cursor_id} is on {stream.request.namespace}, getMore asks for {asked}"
            )
        if stream.in_use:
            raise RouterError(12051, "CursorInUse", f"cursor id {cursor_id} is in use by another getMore")
        return stream

    async def _next_batch(self, stream: Stream, command: Mapping[str, Any]) -> list[bytes]:
        clock = asyncio.get_running_loop().time
        wait_ms = int(command.get("maxTimeMS") or AWAIT_MS)
        until = clock() + wait_ms / 1000
        limit = int(command.get("batchSize") or NO_LIMIT)
        fields = stream.request.get_more_fields(command.get("comment"))
        while True:
            if stream.failure is not None:
                raise stream.failure
            if stream.new_shard:
                await self._check_shards(stream)
            events = stream.take(limit)
            if events or stream.merge.ended or clock() >= until:
                return events
            stream.progress.clear()
            for shard in stream.merge.starving():
                # One that has not returned stays outstanding, however many getMores of the client pass.
                if shard not in stream.fetches:
                    stream.fetches[shard] = asyncio.create_task(
                        self._fetch(stream, stream.cursors[shard], min(wait_ms, AWAIT_MS), fields)
                    )
            try:
                async with asyncio.timeout_at(until):
                    await stream.progress.wait()
            except TimeoutError:
                pass

    async def _fetch(self, stream: Stream, cursor: ShardCursor, max_time_ms: int, fields: Mapping[str, Any]) -> None:
        try:
            batch = await cursor.get_more(max_time_ms, fields)
            self._monitor.note_cluster_time(batch.cluster_time)
            stream.arrived(cursor.shard, batch)
        except (ConnectionLost, DeadlinePassed) as error:
            # Not where the stream was killed: then the connection was closed here, and the member is well.
            if stream.failure is None:
                stream.fail(unreachable(self._monitor, cursor.host, f"a getMore on shard {cursor.shard}", error))
        except Exception as error:  # whatever it is, the client's getMore has to end with it
            stream.fail(error)
        finally:
            del stream.fetches[cursor.shard]

    async def _check_shards(self, stream: Stream) -> None:
        """A chunk went to a shard that had none. One that this stream has no cursor on cannot be added: resume."""
        try:
            unknown = set(await self._shards()) - set(stream.cursors)
        except (ConnectionLost, DeadlinePassed) as error:
            raise RouterError(
                6, "HostUnreachable", f"the list of shards cannot be read: {error}", [RESUMABLE]
            ) from None
        if unknown:
            raise RouterError(
                6,
                "HostUnreachable",
                f"shard {', '.join(sorted(unknown))} is new since the stream was opened; resume to have it included",
                [RESUMABLE],
            )
        stream.new_shard = False

    # ending

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
        """From now on the stream is idle, if it is still there."""
        if cursor_id in self._streams:
            stream.idle = asyncio.get_running_loop().call_later(IDLE, lambda: self._spawn(self._finish([cursor_id])))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """What the client need not wait for; `close` does."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
