"""The merge of one change stream's shard cursors: resume-token order under the promised-minimum rule. Pure.

An event is given out only when no shard can still produce a smaller token. Knows nothing of cursors or connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson.timestamp import Timestamp

Token = Mapping[str, Any]
"""A resume token, `{_data: <hex>}`; perhaps with `_typeBits`, which take no part in the order."""


def key(token: Token) -> str:
    """What tokens are ordered by: the hex is a KeyString, so it sorts as the server sorts."""
    return str(token["_data"])


def time_of(key: str) -> Timestamp:
    """The cluster time a token begins with, behind the byte 0x82 that says its type."""
    return Timestamp(int(key[2:10], 16), int(key[10:18], 16))


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `document` is its BSON as the client gets it, None where a shard's stream ends without an event."""

    key: str
    token: Token
    document: bytes | None


@dataclass(slots=True)
class _Shard:
    token: Token
    promise: str
    """No event of this shard that has not arrived yet has a smaller token."""
    events: deque[Event] = field(default_factory=deque)
    ended: bool = False


class Merge:
    """`start` has the first postBatchResumeToken of each shard."""

    def __init__(self, start: Mapping[str, Token]) -> None:
        self._shards = {name: _Shard(token, key(token)) for name, token in start.items()}
        self._mark: Token = self._least().token
        self.ended = False
        """A shard's stream has ended (invalidate), and everything before that was given out."""

    def join(self, shard: str, token: Token) -> None:
        """One more shard; `token` is its first. It has no event that lies before what was given out already."""
        self._shards[shard] = _Shard(token, key(token))

    def add(self, shard: str, events: Iterable[Event], token: Token, *, ended: bool = False) -> None:
        """A batch of a shard and its postBatchResumeToken; `ended`: the shard has closed its cursor."""
        one = self._shards[shard]
        one.events.extend(events)
        if key(token) >= one.promise:
            one.token, one.promise = token, key(token)
        if ended:
            one.ended = True
            if not one.events or one.events[-1].key != one.promise:
                # The user's stages may have filtered the invalidate event out; the stream ends there all the same.
                one.events.append(Event(one.promise, one.token, None))

    def starving(self) -> Sequence[str]:
        """The shards of which the next batch is wanted."""
        return [name for name, one in self._shards.items() if not one.events and not one.ended]

    def take(self, limit: int, max_bytes: int) -> list[bytes]:
        """What can be given out now, at most `limit` events, and past the first at most `max_bytes` bytes."""
        taken: list[bytes] = []
        size = 0
        while len(taken) < limit and not self.ended:
            one = self._next()
            if one is None:
                break
            event = one.events[0]
            if event.document is not None:
                size += len(event.document)
                if taken and size > max_bytes:
                    break
                taken.append(event.document)
            one.events.popleft()
            self._mark = event.token
            self.ended = one.ended and not one.events
        if not self.ended and self._next() is None:
            self._mark = self._least().token
        return taken

    def resume_token(self) -> Token:
        """The client's postBatchResumeToken: resuming from it neither loses nor doubles an event."""
        return self._mark

    def ready(self) -> bool:
        """Whether there is something to take."""
        return not self.ended and self._next() is not None

    def horizon(self) -> Timestamp:
        """No event that can be taken now, and no resume token after that, has a later cluster time."""
        return time_of(self._least().promise)

    def _least(self) -> _Shard:
        return min(self._shards.values(), key=lambda one: one.promise)

    def _next(self) -> _Shard | None:
        """The shard whose first event may go out, if there is one."""
        floor = self._least().promise
        waiting = [one for one in self._shards.values() if one.events]
        if not waiting:
            return None
        smallest = min(waiting, key=lambda one: one.events[0].key)
        return smallest if smallest.events[0].key <= floor else None
