"""Exact counts of the requests that were read: how often, how many at once, since when, of whom.

Each request counts in up to three tables: by link, source, command and namespace; by session and txnNumber, over all
links; by the run, write and execution that its `comment` names, over all links. `in flight` ends with the reply (the
last of a stream), and with the connection.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from bson.binary import UUID_SUBTYPE, Binary

from clusters.wire.message import Message, decode
from clusters.wire.proxy.errors import Refusal
from clusters.wire.walk import find

ROWS: Final = 50_000
"""Rows kept over all tables, about 25 MB; a request that would need one more counts as dropped."""

_INT: Final = struct.Struct("<i")
Key = tuple[Any, ...]

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "command": ("link", "source", "command", "namespace"),
    "transaction": ("lsid", "txnNumber"),
    "comment": ("run", "write", "execution"),
}


class Row:
    """Counts of one key. Times are of the system's clock, in seconds since 1970."""

    __slots__ = ("first", "last", "links", "most", "now", "total", "unanswered")

    def __init__(self, now: float) -> None:
        self.total = self.now = self.most = self.unanswered = 0
        self.first = self.last = now
        self.links: dict[str, int] = {}


class Asked:
    """What is known of a request that waits for its reply. `rows` it is in flight in."""

    __slots__ = ("command", "namespace", "rows")

    def __init__(self, command: str, namespace: str) -> None:
        self.command, self.namespace = command, namespace
        self.rows: tuple[Row, ...] = ()


def read(message: Message) -> Asked:
    """Its command and on what. Raises ProtocolError, ValueError, LookupError on bytes that are none."""
    command = message.command
    raw, fields = message.raw, message.fields
    database = _string(raw, fields.get(b"$db"), 5)
    name = b"collection" if command == "getMore" else command.encode()
    collection = _string(raw, fields.get(name), len(name) + 2)
    if not collection:
        return Asked(command, database)
    if database == "admin" and not collection.startswith("system."):
        # renameCollection and the like name a whole namespace, replSetHeartbeat and the like a set.
        return Asked(command, collection if "." in collection else database)
    return Asked(command, f"{database}.{collection}")


def _string(raw: bytes, at: int | None, skip: int) -> str:
    if at is None or raw[at] != 0x02:
        return ""
    (size,) = _INT.unpack_from(raw, at + skip)
    return raw[at + skip + 4 : at + skip + 3 + size].decode()


def _transaction(message: Message) -> Key | None:
    at = message.fields.get(b"lsid")
    if at is None or b"txnNumber" not in message.fields or message.raw[at] != 0x03:
        return None
    found = find(message.raw, at + 6, b"id")
    if found < 0 or message.raw[found] != 0x05:
        return None
    (size,) = _INT.unpack_from(message.raw, found + 4)
    return message.raw[found + 9 : found + 9 + size], message.number(b"txnNumber")


def _comment(message: Message) -> Key | None:
    at = message.fields.get(b"comment")
    if at is None or message.raw[at] != 0x03:
        return None
    value = at + 9
    comment = decode(message.raw[value : value + _INT.unpack_from(message.raw, value)[0]])
    found = tuple(comment.get(name) for name in TABLES["comment"])
    return found if all(isinstance(one, str | int) for one in found) else None


class Tap:
    """`messages` were counted, `dropped` of their rows found no room."""

    def __init__(self, limit: int = ROWS) -> None:
        self.messages = 0
        self.dropped = 0
        self._limit = limit
        self._rows = 0
        self._tables: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}

    def sent(self, link: str, source: str, asked: Asked, message: Message) -> tuple[Row, ...]:
        """A request was read; the rows in which it is in flight from now on."""
        self.messages += 1
        now = time.time()
        tables = self._tables
        rows = [self._count(tables["command"], (link, source, asked.command, asked.namespace), link, now)]
        if (key := _transaction(message)) is not None:
            rows.append(self._count(tables["transaction"], key, link, now))
        if (key := _comment(message)) is not None:
            rows.append(self._count(tables["comment"], key, link, now))
        return tuple(row for row in rows if row is not None)

    def _count(self, table: dict[Key, Row], key: Key, link: str, now: float) -> Row | None:
        row = table.get(key)
        if row is None:
            if self._rows >= self._limit:
                self.dropped += 1
                return None
            self._rows += 1
            row = table[key] = Row(now)
        row.total += 1
        row.now += 1
        if row.now > row.most:
            row.most = row.now
        row.last = now
        row.links[link] = row.links.get(link, 0) + 1
        return row

    def ended(self, rows: tuple[Row, ...], *, answered: bool = True) -> None:
        """The request in flight in these rows was answered, or never will be."""
        for row in rows:
            row.now -= 1
            if not answered:
                row.unanswered += 1

    def clear(self) -> None:
        """Forget all counts. A request still in flight is in none any more."""
        self.messages = self.dropped = self._rows = 0
        for table in self._tables.values():
            table.clear()

    def counts(self, by: str, wanted: Mapping[str, Any], limit: int) -> dict[str, Any]:
        """The rows of table `by` whose key is as wanted, at most `limit`. Raises Refusal."""
        if by not in TABLES:
            raise Refusal(2, f"expected proxyCounts.by to be one of {', '.join(TABLES)}, found {by!r}")
        names = TABLES[by]
        for name in wanted:
            if name not in names:
                raise Refusal(40415, f"BSON field 'proxyCounts.{name}' is an unknown field.")
        places = [(names.index(name), _plain(value)) for name, value in wanted.items()]
        found = [
            (key, row) for key, row in self._tables[by].items() if all(key[place] == value for place, value in places)
        ]
        return {
            "rows": [_shown(names, key, row) for key, row in found[:limit]],
            "leftOff": max(0, len(found) - limit),
            "messages": self.messages,
            "dropped": self.dropped,
        }


def _plain(value: Any) -> Any:
    """As keys have it: a session's id as bytes, however it was sent."""
    return value.bytes if isinstance(value, uuid.UUID) else bytes(value) if isinstance(value, bytes) else value


def _shown(names: tuple[str, ...], key: Key, row: Row) -> dict[str, Any]:
    shown = dict(zip(names, key, strict=True))
    if "lsid" in shown:
        shown["lsid"] = Binary(shown["lsid"], UUID_SUBTYPE)
    return {
        **shown,
        "total": row.total,
        "now": row.now,
        "most": row.most,
        "unanswered": row.unanswered,
        "first": row.first,
        "last": row.last,
        "links": row.links,
    }
