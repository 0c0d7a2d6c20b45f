"""One change stream of a client while it is open: its shard cursors, their merge, what has gone wrong so far.

No I/O: `change_stream` sends the commands. Here is what becomes of a batch that arrives, and of a reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from clusters.router.errors import RouterError
from clusters.router.merge import Event, Merge
from clusters.router.shard_cursor import Batch, ShardCursor
from clusters.router.stream_request import StreamRequest

MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Of events in one reply, as a server has it; one event alone may be larger."""

_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


class Stream:
    """`progress` is set whenever a shard has answered or the stream has failed. `fetches` are the getMores sent.

    `told_of_shards`: the collection is sharded, so that it comes to a new shard only by a chunk, and the donor's stream
    tells (`new_shard`). Any other stream has to look at the list of shards before it gives anything out.
    """

    def __init__(
        self, request: StreamRequest, cursors: Mapping[str, tuple[ShardCursor, Batch]], *, told_of_shards: bool
    ) -> None:
        self.request = request
        self.told_of_shards = told_of_shards
        self.cursors = {name: cursor for name, (cursor, _batch) in cursors.items()}
        self.merge = Merge({name: batch.token for name, (_cursor, batch) in cursors.items()})
        self.fetches: dict[str, asyncio.Task[None]] = {}
        self.progress = asyncio.Event()
        self.failure: Exception | None = None
        self.new_shard = False
        self.in_use = False
        self.used = 0.0
        """The event loop's time of the last getMore's end."""
        self.idle: asyncio.TimerHandle | None = None
        self._resume_key = request.resume_key

    def join(self, cursors: Mapping[str, tuple[ShardCursor, Batch]]) -> None:
        """Cursors on shards that are new since the stream was opened."""
        for name, (cursor, batch) in cursors.items():
            self.cursors[name] = cursor
            self.merge.join(name, batch.token)

    def arrived(self, shard: str, batch: Batch) -> None:
        self.new_shard |= batch.new_shard
        self.merge.add(shard, self._after_resume(batch.events), batch.token, ended=not batch.cursor_id)
        self.progress.set()

    def fail(self, error: Exception) -> None:
        """The first failure is the one the client learns."""
        self.failure = self.failure or error
        self.progress.set()

    def take(self, limit: int) -> list[bytes]:
        """What can be given to the client now."""
        taken = self.merge.take(limit, MAX_BATCH_BYTES)
        if taken and self._resume_key is not None and self.request.merged:
            # No shard can send the token's event any more. A mongos answers 280; the shards do not look, under
            # needsMerge. With stages of the user's, which run in the shards here, they may have filtered it out:
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

    def reply(self, cursor_id: int, name: str, events: Iterable[bytes]) -> dict[str, Any]:
        """The reply document; `name` is firstBatch or nextBatch. The cursor id is 0 where the stream has ended."""
        return {
            "cursor": {
                name: [RawBSONDocument(one, _RAW) for one in events],
                "postBatchResumeToken": self.merge.resume_token(),
                "id": Int64(0 if self.merge.ended else cursor_id),
                "ns": self.request.namespace,
            },
            "ok": 1.0,
        }

    def _after_resume(self, events: list[Event]) -> list[Event]:
        """Without the event the client resumes from: under needsMerge a shard sends it, the router swallows it."""
        if self._resume_key is not None and not self.request.merged:
            return self._after_time(events)
        for index, event in enumerate(events):
            if self._resume_key is None or event.key > self._resume_key:
                break
            if event.key == self._resume_key:
                self._resume_key = None
                return events[:index] + events[index + 1 :]
        return events

    def _after_time(self, events: list[Event]) -> list[Event]:
        """The same where shards began at the token's time: each sends what it had at that time, up to the token too."""
        resume_key = self._resume_key
        assert resume_key is not None
        return [event for event in events if event.key > resume_key]
