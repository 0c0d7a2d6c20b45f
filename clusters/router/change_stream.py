"""Change streams through the stand-in router: one cursor per shard, merged by resume token, a getMore at a time.

An imitation of a mongos above the shards: empty batches, gating and error labels are this file's. It must not know
how commands arrive, and must not put a deadline on a shard getMore: that one hangs is what the project shows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from clusters.router.errors import RESUMABLE, RouterError
from clusters.router.merge import Event, Merge
from clusters.router.monitor import Monitor
from clusters.router.shard_cursor import Batch, ShardCursor, kill_cursors
from clusters.router.stream_request import StreamRequest
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from clusters.wire.pool import Pools

AWAIT_MS = 1000
"""How long a getMore waits that has no maxTimeMS, and the most a shard getMore is given (as a mongos does)."""
MAX_BATCH_BYTES = 16_000_000
IDLE = 600.0
"""Seconds without a getMore until a stream's cursors are killed (`cursorTimeoutMillis` of a mongos)."""
SELECT_DEADLINE = 15.0
PING_DEADLINE = 5.0
OPEN_ATTEMPTS = 3

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
_RETRIED = frozenset((6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436))
"""Codes of an aggregate after which another member is tried (driver specification "Retryable Reads")."""


class _Stream:
    """One client cursor: its shard cursors, their merge, and what has gone wrong."""

    def __init__(self, request: StreamRequest, cursors: Mapping[str, tuple[ShardCursor, Batch]]) -> None:
        self.request = request
        self.cursors = {name: cursor for name, (cursor, _batch) in cursors.items()}
        self.merge = Merge({name: batch.token for name, (_cursor, batch) in cursors.items()})
        self.fetches: dict[str, asyncio.Task[None]] = {}
        self.progress = asyncio.Event()
        self.failure: Exception | None = None
        self.new_shard = False
        self.in_use = False
        self.idle: asyncio.TimerHandle | None = None
        self._resume_key = request.resume_key

    def arrived(self, shard: str, batch: Batch) -> None:
        self.new_shard |= batch.new_shard
        self.merge.add(shard, self._after_resume(batch.events), batch.token, ended=not batch.cursor_id)
        self.progress.set()

    def _after_resume(self, events: list[Event]) -> list[Event]:
        """Without the event the client resumes from: under needsMerge a shard sends it, the router swallows it."""
        for index, event in enumerate(events):
            if self._resume_key is None or event.key > self._resume_key:
                break
            if event.key == self._resume_key:
                self._resume_key = None
                return events[:index] + events[index + 1 :]
        return events

    def take(self, limit: int) -> list[bytes]:
        taken = self.merge.take(limit, MAX_BATCH_BYTES)
        if taken and self._resume_key is not None:
            # No shard can send the token's event any more. A mongos answers 280 (the shards do not look, under
            # needsMerge). With stages of the user's, which run in the shards here, they may have filtered it out:
            # then its absence says nothing, and the stream goes on where a mongos might have refused.
            if not self.request.stages:
                raise RouterError(
                    280,
                    "ChangeStreamFatalError",
                    f"cannot resume: no event with the resume token {self._resume_key} is in the oplog of any shard;"
                    " start the stream anew",
                    ["NonResumableChangeStreamError"],
                )
            self._resume_key = None
        return taken

    def cursor(self, cursor_id: int, name: str, events: Iterable[bytes]) -> dict[str, Any]:
        return {
            "cursor": {
                name: [RawBSONDocument(one, _RAW) for one in events],
                "postBatchResumeToken": self.merge.resume_token(),
                "id": Int64(0 if self.merge.ended else cursor_id),
                "ns": self.request.namespace,
            },
            "ok": 1.0,
        }


class ChangeStreams:
    """`pools` are of internal connections. `shards` gives the cluster's shards as they are now: name -> set name.

    A client that goes away leaves its cursors, as with a mongos; they are killed after IDLE.
    """

    def __init__(self, monitor: Monitor, pools: Pools, shards: Callable[[], Awaitable[Mapping[str, str]]]) -> None:
        self._monitor = monitor
        self._pools = pools
        self._shards = shards
        self._streams: dict[int, _Stream] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """The reply to an aggregate that begins with $changeStream; its first batch is always empty.

        Raises RouterError or CommandFailed. Bounded only where no member is found or no handshake answered.
        """
        request = StreamRequest.of(command)
        shards = await self._shards()
        start = None if request.has_start else await self._common_start(shards.values())
        opened: dict[str, tuple[ShardCursor, Batch]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for shard, set_name in shards.items():
                    group.create_task(self._open_shard(opened, shard, set_name, request, start))
        except BaseException as error:
            self._spawn(self._discard([cursor for cursor, _batch in opened.values()]))
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        cursor_id = random.getrandbits(62) + 1
        stream = self._streams[cursor_id] = _Stream(request, opened)
        self._rest(cursor_id, stream)
        return stream.cursor(cursor_id, "firstBatch", ())

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
        return stream.cursor(cursor_id, "nextBatch", events)

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

    # opening

    async def _common_start(self, sets: Iterable[str]) -> Timestamp:
        """T + 1: no write acknowledged before now has a later time than T, none begun from now on an earlier one.

        T is the highest cluster time of the shards' primaries; told to all of them, their next write is past it.
        """
        primaries = [await self._monitor.primary(one, deadline=SELECT_DEADLINE) for one in sets]
        for _round in ("ask", "tell"):
            await asyncio.gather(*(self._gossip(one) for one in primaries))
        known = self._monitor.cluster_time()
        if known is None:
            raise RouterError(8, "UnknownError", "no shard primary told its $clusterTime; is it a replica set member?")
        time: Timestamp = known["clusterTime"]
        return Timestamp(time.time, time.inc + 1)

    async def _gossip(self, host: str) -> None:
        known = self._monitor.cluster_time()
        command: dict[str, Any] = {"ping": 1} if known is None else {"ping": 1, "$clusterTime": known}
        try:
            async with asyncio.timeout(PING_DEADLINE), self._pools.to(host).connection() as connection:
                reply = await connection.command("admin", command)
        except (TimeoutError, ConnectionLost, DeadlinePassed) as error:
            self._lost(host, error)
            raise _unreachable(host, "the ping before a change stream", error) from error
        self._monitor.note_cluster_time(reply.get("$clusterTime"))

    async def _open_shard(
        self,
        opened: dict[str, tuple[ShardCursor, Batch]],
        shard: str,
        set_name: str,
        request: StreamRequest,
        start: Timestamp | None,
    ) -> None:
        command = request.shard_command(start)
        for attempt in range(1, OPEN_ATTEMPTS + 1):
            host = await self._monitor.select(set_name, request.read_preference, deadline=SELECT_DEADLINE)
            try:
                opened[shard] = await ShardCursor.open(self._pools, shard, host, request.database, command)
                return
            except (ConnectionLost, DeadlinePassed) as error:
                self._lost(host, error)
                if attempt == OPEN_ATTEMPTS:
                    raise _unreachable(host, "the aggregate of a change stream", error) from error
            except CommandFailed as error:
                if error.code not in _RETRIED or attempt == OPEN_ATTEMPTS:
                    raise

    # delivering

    def _checked(self, cursor_id: int, command: Mapping[str, Any]) -> _Stream:
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

    async def _next_batch(self, stream: _Stream, command: Mapping[str, Any]) -> list[bytes]:
        clock = asyncio.get_running_loop().time
        wait_ms = int(command.get("maxTimeMS") or AWAIT_MS)
        until = clock() + wait_ms / 1000
        limit = int(command.get("batchSize") or 1 << 31)
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

    async def _fetch(self, stream: _Stream, cursor: ShardCursor, max_time_ms: int, fields: Mapping[str, Any]) -> None:
        try:
            batch = await cursor.get_more(max_time_ms, fields)
            self._monitor.note_cluster_time(batch.cluster_time)
            stream.arrived(cursor.shard, batch)
        except (ConnectionLost, DeadlinePassed) as error:
            if stream.failure is None:
                self._lost(cursor.host, error)
                stream.failure = _unreachable(cursor.host, f"a getMore on shard {cursor.shard}", error)
        except Exception as error:  # whatever it is, the client's getMore has to end with it
            stream.failure = stream.failure or error
        finally:
            del stream.fetches[cursor.shard]
            stream.progress.set()

    async def _check_shards(self, stream: _Stream) -> None:
        """A chunk went to a shard that had none. One that this stream has no cursor on cannot be added: resume."""
        stream.new_shard = False
        unknown = set(await self._shards()) - set(stream.cursors)
        if unknown:
            raise RouterError(
                6,
                "HostUnreachable",
                f"shard {', '.join(sorted(unknown))} is new since the stream was opened; resume to have it included",
                [RESUMABLE],
            )

    # ending

    async def _finish(self, cursor_ids: Sequence[int]) -> None:
        streams = [stream for one in cursor_ids if (stream := self._streams.pop(one, None)) is not None]
        for stream in streams:
            if stream.idle is not None:
                stream.idle.cancel()
            stream.failure = stream.failure or RouterError(237, "CursorKilled", "the change stream's cursor was killed")
            stream.progress.set()
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

    def _rest(self, cursor_id: int, stream: _Stream) -> None:
        if cursor_id in self._streams:
            stream.idle = asyncio.get_running_loop().call_later(IDLE, lambda: self._spawn(self._finish([cursor_id])))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """What the client need not wait for; `close` does."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _lost(self, host: str, error: Exception) -> None:
        if isinstance(error, ConnectionLost):
            self._monitor.note_failure(host)


def _unreachable(host: str, what: str, error: Exception) -> RouterError:
    return RouterError(6, "HostUnreachable", f"{host} was lost in {what}: {error}; the driver may resume", [RESUMABLE])
