"""Which cursor was opened where: on the router host, or on one member whose listing comes in several batches.

Cursors of change streams are not here. Pure bookkeeping, no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from clusters.router.rewrite import DOCUMENT
from clusters.wire.message import Message
from clusters.wire.walk import end_of, find, number

ON_ROUTER_HOST: Final = ""
IDLE_LIMIT: Final = 1800.0
"""Seconds; a session's lifetime. A mongod has no reaper for cluster cursors (mongos has), so the router sees to it."""


@dataclass(slots=True)
class Cursor:
    """`host` is ON_ROUTER_HOST or a member. `lsid` is the BSON of the session that opened it, or empty."""

    identity: int
    host: str
    database: str
    collection: str
    lsid: bytes
    used: float = field(default_factory=time.monotonic)


class Cursors:
    def __init__(self) -> None:
        self._cursors: dict[int, Cursor] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._cursors

    def __len__(self) -> int:
        return len(self._cursors)

    def get(self, identity: int) -> Cursor | None:
        cursor = self._cursors.get(identity)
        if cursor is not None:
            cursor.used = time.monotonic()
        return cursor

    def add(self, cursor: Cursor) -> None:
        self._cursors[cursor.identity] = cursor

    def remove(self, identity: int) -> None:
        self._cursors.pop(identity, None)

    def all(self) -> list[Cursor]:
        return list(self._cursors.values())

    def idle(self) -> Iterator[Cursor]:
        """Those nobody used for IDLE_LIMIT."""
        limit = time.monotonic() - IDLE_LIMIT
        return iter([cursor for cursor in self._cursors.values() if cursor.used < limit])


def cursor_in(reply: Message) -> tuple[int, str]:
    """Id and namespace of the cursor in a reply; (0, "") where there is none that is open."""
    raw = reply.raw
    at = find(raw, reply.begin, b"cursor")
    if at < 0 or raw[at] != DOCUMENT:
        return 0, ""
    inner = at + len(b"\x03cursor\x00")
    at = find(raw, inner, b"id")
    identity = number(raw, raw[at], at + len(b"\x12id\x00")) if at >= 0 else None
    if not identity:
        return 0, ""
    namespace = find(raw, inner, b"ns") + len(b"\x02ns\x00") + 4
    return identity, raw[namespace : raw.index(0, namespace)].decode()


def session_in(message: Message) -> bytes:
    """The BSON of `lsid` in a command, or nothing."""
    raw = message.raw
    at = message.fields.get(b"lsid")
    if at is None or raw[at] != DOCUMENT:
        return b""
    value = at + len(b"\x03lsid\x00")
    return raw[value : end_of(raw, DOCUMENT, value, message.end)]
