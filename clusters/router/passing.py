"""What is passed on to the router host: reads, their cursors, un-numbered writes.

Documents are not decoded on the way. Numbered writes and change streams are elsewhere, and the gate refuses them here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson.int64 import Int64

from clusters.router.batch import STATEMENTS
from clusters.router.cursors import ON_ROUTER_HOST, Cursor, Cursors, cursor_in, session_in
from clusters.router.errors import RouterError
from clusters.router.members import COMMAND_DEADLINE
from clusters.router.replies import passed_on
from clusters.router.router_host import RouterHost
from clusters.wire.connection import CommandFailed, ConnectionLost
from clusters.wire.message import Message, decode, encode_body
from clusters.wire.pool import Pools

_CURSOR_GONE: Final = frozenset((43, 237))


class Passing:
    def __init__(self, host: RouterHost, plain: Pools) -> None:
        self.cursors = Cursors()
        self._host = host
        self._plain = plain

    async def command(self, message: Message) -> bytes:
        """find, aggregate, insert, update, delete: the router host's reply."""
        reply = await self._host.pass_on(message, self.cursors)
        self.note(message, reply, ON_ROUTER_HOST)
        return passed_on(reply)

    async def refresh(self, database: str, collection: str) -> None:
        """Make the router host read the catalog again."""
        await self._host.refresh(database, collection)

    async def to_member(self, host: str, message: Message) -> bytes:
        """The message unchanged to one member, and its reply; a cursor it opens stays with that member."""
        raw = encode_body(message.body, request_id=message.request_id, tail=message.tail)
        reply = await self._plain.to(host).request(raw, deadline=COMMAND_DEADLINE)
        self.note(message, reply, host)
        return reply.raw

    def note(self, message: Message, reply: Message, host: str) -> None:
        """Keep the book of cursors: of what a command opened on `host`, and of a getMore that was the last."""
        if message.command in STATEMENTS:
            return
        identity, namespace = cursor_in(reply)
        if message.command != "getMore":
            if identity:
                database, _dot, collection = namespace.partition(".")
                self.cursors.add(Cursor(identity, host, database, collection, session_in(message)))
        elif not identity and (reply.number(b"ok") == 1 or reply.number(b"code") in _CURSOR_GONE):
            self.cursors.remove(message.number(b"getMore") or 0)

    async def get_more(self, message: Message) -> bytes:
        identity = message.number(b"getMore")
        cursor = self.cursors.get(identity) if identity is not None else None
        if cursor is None:
            raise RouterError(43, "CursorNotFound", f"cursor id {identity} not found")
        if cursor.host == ON_ROUTER_HOST:
            reply = await self._host.pass_on(message, self.cursors)
        else:
            raw = encode_body(message.body, request_id=message.request_id)
            reply = await self._plain.to(cursor.host).request(raw, deadline=COMMAND_DEADLINE)
        self.note(message, reply, cursor.host)
        return passed_on(reply) if cursor.host == ON_ROUTER_HOST else reply.raw

    async def kill(self, identities: Sequence[int]) -> dict[int, bool]:
        """Identity -> whether it was there and is gone now; False for one in use by a getMore."""
        known = [cursor for one in identities if (cursor := self.cursors.get(one)) is not None]
        killed = await asyncio.gather(*(self._kill(cursor) for cursor in known))
        return {cursor.identity: gone for cursor, gone in zip(known, killed, strict=True)}

    async def kill_idle(self) -> None:
        await self.kill([cursor.identity for cursor in self.cursors.idle()])

    async def _kill(self, cursor: Cursor) -> bool:
        session = {"lsid": decode(cursor.lsid)} if cursor.lsid else {}
        try:
            async with asyncio.timeout(COMMAND_DEADLINE):
                if cursor.host == ON_ROUTER_HOST:
                    gone = await self._kill_on_router_host(cursor, session)
                else:
                    kill = {"killCursors": cursor.collection, "cursors": [Int64(cursor.identity)], **session}
                    async with self._plain.to(cursor.host).connection() as connection:
                        reply = await connection.command(cursor.database, kill)
                    gone = not reply.get("cursorsAlive")
        except (CommandFailed, ConnectionLost, TimeoutError):
            gone = False
        if gone:
            self.cursors.remove(cursor.identity)
        return gone

    async def _kill_on_router_host(self, cursor: Cursor, session: Mapping[str, Any]) -> bool:
        """A mongod has no command that kills a cluster cursor (its killCursors answers cursorsNotFound).

        But a getMore with maxTimeMS is an error for any cursor that does not wait for data, and the error kills the
        cursor and those on the shards. Measured on 6.0.5; a cursor that waits for data is never opened there.
        """
        more = {"getMore": Int64(cursor.identity), "collection": cursor.collection, "maxTimeMS": 1, **session}
        try:
            await self._host.run(cursor.database, more, self.cursors)
        except CommandFailed as error:
            return error.code == 2 or error.code in _CURSOR_GONE
        return False
