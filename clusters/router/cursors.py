"""Which cursor was opened where: on the router host, or on one member whose listing comes in several batches.

Cursors of change streams are not here. Pure bookkeeping, no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from clusters.router.rewrite import DOCUMENT, document_at, elements, number

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

    def idle(self) -> Iterator[Cursor]:
        """Those nobody used for IDLE_LIMIT."""
        limit = time.monotonic() - IDLE_LIMIT
        return iter([cursor for cursor in self._cursors.values() if cursor.used < limit])


def cursor_in(reply: bytes) -> tuple[int, str]:
    """Id and namespace of the cursor in a reply's body; (0, "") where there is none that is open."""
    for element in elements(reply):
        if element.name == "cursor" and element.kind == DOCUMENT:
            identity, namespace = 0, ""
            for inner in elements(reply, element.value):
                if inner.name == "id":
                    identity = number(reply, inner) or 0
                    if not identity:
                        return 0, ""
                elif inner.name == "ns":
                    namespace = reply[inner.value + 4 : inner.end - 1].decode()
            return identity, namespace
        if element.name == "ok":
            break
    return 0, ""


def session_in(body: bytes) -> bytes:
    """The BSON of `lsid` in a command's body, or nothing."""
    for element in elements(body):
        if element.name == "lsid" and element.kind == DOCUMENT:
            return document_at(body, element)
    return b""
