"""A change stream's cursor on one member of one shard: open, getMore, kill; and its batches, taken apart as bytes.

Knows nothing of the other shards or of the client; has no timeout on a getMore, as a mongos has none.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from clusters.router.merge import Event, Token, key
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from clusters.wire.message import ProtocolError, decode, encode, encode_document, next_request_id
from clusters.wire.pool import Pools

KILL_DEADLINE = 2.0
"""Seconds a member is given to kill cursors; a frozen one does it when it thaws."""

_INT = struct.Struct("<i")
_SORT_KEY = b"\x04$sortKey\x00"
_NEW_SHARD = b"\x02operationType\x00\x12\x00\x00\x00kNewShardDetected\x00"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a shard. `new_shard`: the shard reported that a chunk went to a shard that had none."""

    cursor_id: int
    token: Token
    events: list[Event] = field(default_factory=list)
    new_shard: bool = False
    cluster_time: Mapping[str, Any] | None = None


def parse_batch(host: str, command: str, body: bytes, *, merged: bool = True) -> Batch:
    """The reply of an aggregate or getMore; `merged`: of a cursor opened with needsMerge. Raises CommandFailed where
    the server said so."""
    reply = RawBSONDocument(body)
    if reply["ok"] != 1:
        raise CommandFailed(host, command, decode(body))
    cursor = reply["cursor"]
    events: list[Event] = []
    new_shard = False
    for one in cursor["nextBatch" if command == "getMore" else "firstBatch"]:
        raw = bytes(one.raw)
        # $_internalChangeStreamCheckTopologyChange hands these past the user's stages, for the router alone.
        if _NEW_SHARD in raw and one.get("operationType") == "kNewShardDetected":
            new_shard = True
        else:
            events.append(parse_event(raw) if merged else plain_event(raw))
    return Batch(
        int(cursor["id"]),
        decode(cursor["postBatchResumeToken"].raw),
        events,
        new_shard,
        decode(reply["$clusterTime"].raw) if "$clusterTime" in reply else None,
    )


def parse_event(raw: bytes) -> Event:
    """An event as a shard sends it under needsMerge: with `$sortKey: [<token>]`, which the client must not see."""
    at = raw.rfind(_SORT_KEY)
    if at < 0:
        raise ProtocolError("an event of a shard cursor has no $sortKey; it was not opened with needsMerge")
    start = at + len(_SORT_KEY)
    (size,) = _INT.unpack_from(raw, start)
    if start + size + 1 == len(raw):
        token = decode(raw[start : start + size])["0"]
        return Event(key(token), token, b"".join((_INT.pack(at + 1), raw[4:at], b"\x00")))
    # 6.0.5 puts it last, always; another version may not.
    document = decode(raw)
    (token,) = document.pop("$sortKey")
    return Event(key(token), token, encode_document(document))


def plain_event(raw: bytes) -> Event:
    """An event of a stream that a shard has for a client of its own: its `_id` is the token."""
    token = decode(RawBSONDocument(raw)["_id"].raw)
    return Event(key(token), token, raw)


class ShardCursor:
    """Made with `open`. Has a connection of its own: a getMore that hangs holds nobody else's."""

    def __init__(
        self, pools: Pools, shard: str, connection: Connection, namespace: tuple[str, str], *, merged: bool = True
    ) -> None:
        self.shard = shard
        self.host = connection.host
        self.cursor_id = 0
        self._pools = pools
        self._connection: Connection | None = connection
        self._database, self._collection = namespace
        self._merged = merged
        self._sent: tuple[float, int] | None = None

    @classmethod
    async def open(
        cls, pools: Pools, shard: str, host: str, namespace: tuple[str, str], command: Mapping[str, Any]
    ) -> tuple[ShardCursor, Batch]:
        """`namespace` is the cursor's database and collection, as its getMores name them.

        Raises CommandFailed, ConnectionLost, or DeadlinePassed where the connection's handshake got no answer."""
        connection = await pools.to(host).acquire()
        try:
            self = cls(pools, shard, connection, namespace, merged=bool(command.get("needsMerge")))
            message = await connection.request(encode({**command, "$db": namespace[0]}, request_id=next_request_id()))
            batch = parse_batch(host, "aggregate", message.body, merged=self._merged)
        except BaseException:
            pools.to(host).release(connection)
            raise
        self.cursor_id = batch.cursor_id
        return self, batch

    @property
    def namespace(self) -> tuple[str, str]:
        return self._database, self._collection

    @property
    def in_flight(self) -> tuple[float, int] | None:
        """Seconds since the getMore was sent that has not returned, and its maxTimeMS."""
        return None if self._sent is None else (time.monotonic() - self._sent[0], self._sent[1])

    async def get_more(self, max_time_ms: int, fields: Mapping[str, Any]) -> Batch:
        """The next batch, however long it takes. Raises CommandFailed, ConnectionLost, DeadlinePassed (dialling)."""
        command = {
            "getMore": Int64(self.cursor_id),
            "collection": self._collection,
            "maxTimeMS": max_time_ms,
            **fields,
            "$db": self._database,
        }
        self._sent = (time.monotonic(), max_time_ms)
        try:
            if self._connection is None or not self._connection.usable:
                # It broke while idle; the cursor may well live on.
                self._connection = await self._pools.to(self.host).acquire()
            message = await self._connection.request(encode(command, request_id=next_request_id()))
            batch = parse_batch(self.host, "getMore", message.body, merged=self._merged)
        finally:
            self._sent = None
        self.cursor_id = batch.cursor_id
        return batch

    def release(self) -> None:
        """Give the connection back; it is closed if a getMore still waits on it."""
        if self._connection is not None:
            self._pools.to(self.host).release(self._connection)
            self._connection = None


async def kill_cursors(pools: Pools, cursors: Iterable[ShardCursor]) -> None:
    """Kill them on their members, in parallel, each member bounded by KILL_DEADLINE; what fails is left to the member.

    On other connections than theirs: closing a connection does not end a getMore that hangs (measured on 6.0.5:
    still there 8 s later), killCursors ends it in 0.01 s.
    """
    groups: dict[tuple[str, tuple[str, str]], list[int]] = {}
    for one in cursors:
        if one.cursor_id:
            groups.setdefault((one.host, one.namespace), []).append(one.cursor_id)
    await asyncio.gather(*(_kill(pools, host, *namespace, ids) for (host, namespace), ids in groups.items()))


async def _kill(pools: Pools, host: str, database: str, collection: str, ids: list[int]) -> None:
    command = {"killCursors": collection, "cursors": [Int64(one) for one in ids]}
    try:
        async with asyncio.timeout(KILL_DEADLINE), pools.to(host).connection() as connection:
            await connection.command(database, command)
    except (TimeoutError, ConnectionLost, DeadlinePassed, CommandFailed):
        pass
