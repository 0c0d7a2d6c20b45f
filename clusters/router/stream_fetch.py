"""What becomes of a client's getMore: getMores to the shards that have nothing waiting, and the events that may go out.

Must not put a deadline on a shard getMore: that one hangs is what the project shows. The client's own time is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bson.timestamp import Timestamp

from clusters.router.merge import key, time_of
from clusters.router.monitor import Monitor
from clusters.router.shard_cursor import ShardCursor
from clusters.router.shard_list import ShardList
from clusters.router.stream import Stream
from clusters.router.stream_get_more import GetMore
from clusters.router.stream_open import unreachable
from clusters.wire.connection import ConnectionLost, DeadlinePassed

SHARD_AWAIT_MS: Final = 1000
"""The most a shard getMore is given, as by a mongos: a shard that has nothing renews its promise that often."""
LIST_GRACE: Final = 0.1
"""Seconds past its own time that a getMore may wait for the list of shards, which takes a millisecond."""

Joining = Callable[[Stream, Mapping[str, str], Timestamp], Awaitable[None]]


class StreamFetch:
    """`join` opens a stream's cursors on new shards (name -> set name), from a time on."""

    def __init__(self, monitor: Monitor, shards: ShardList, join: Joining) -> None:
        self._monitor = monitor
        self._shards = shards
        self._join = join

    async def next_batch(self, stream: Stream, asked: GetMore) -> list[bytes]:
        """At least one event, or none after the time asked for. Raises the stream's failure."""
        clock = asyncio.get_running_loop().time
        until = clock() + asked.wait_ms / 1000
        fields = stream.request.get_more_fields(asked.comment)
        while True:
            if stream.failure is not None:
                raise stream.failure
            stream.progress.clear()
            late = clock() >= until
            if late or stream.merge.ready() or stream.new_shard:
                complete = await self._every_shard(stream, until + LIST_GRACE)
                events = stream.take(asked.limit) if complete else []
                if events or stream.merge.ended or late:
                    return events
            for shard in stream.merge.starving():
                # One that has not returned stays outstanding, however many getMores of the client pass.
                if shard not in stream.fetches:
                    stream.fetches[shard] = asyncio.create_task(
                        self._fetch(stream, stream.cursors[shard], min(asked.wait_ms, SHARD_AWAIT_MS), fields)
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

    async def _every_shard(self, stream: Stream, deadline: float) -> bool:
        """Whether the stream has a cursor on every shard that can have an event up to what it may give out now."""
        if stream.told_of_shards and not stream.new_shard:
            return True
        known = self._monitor.cluster_time()
        assert known is not None  # the common start or a shard's reply brought one
        now: Timestamp = known["clusterTime"]
        time = now if stream.new_shard else min(now, stream.merge.horizon())
        shards = self._shards.known(time)
        if shards is None:
            try:
                async with asyncio.timeout_at(deadline):
                    shards = await self._shards.ask(time)
            except TimeoutError:
                pass
            if shards is None:
                return False
        new = {name: set_name for name, set_name in shards.items() if name not in stream.cursors}
        if new:
            # From where the stream stands: nothing of theirs lies before that.
            await self._join(stream, new, time_of(key(stream.merge.resume_token())))
        stream.new_shard = False
        return True
