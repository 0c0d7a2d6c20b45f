"""The straight way of what is only passed on: client, gate, router host and back, with no task in between.

It takes a command all of whose fields it knows. Everything else, and whatever must be waited for, goes the long way by
`dispatch`: so a check that stands there is not passed by.
"""

from __future__ import annotations

import asyncio
from typing import Final

from clusters.router import unnumbered
from clusters.router.cursors import ON_ROUTER_HOST
from clusters.router.errors import RouterError
from clusters.router.passing import Passing
from clusters.router.replies import passed_on
from clusters.router.router_host import RouterHost
from clusters.router.server import Client
from clusters.wire.connection import Connection
from clusters.wire.message import OP_MSG, Message, ProtocolError

_COMMON: Final = frozenset(
    (b"$db", b"lsid", b"$clusterTime", b"$readPreference", b"comment", b"maxTimeMS", b"apiVersion")
)
_READ: Final = _COMMON | {b"readConcern"}
_WRITE: Final = _COMMON | {b"ordered", b"writeConcern", b"bypassDocumentValidation", b"let"}

FIELDS: Final = {
    "find": _READ
    | {b"find", b"filter", b"sort", b"projection", b"hint", b"skip", b"limit", b"batchSize", b"singleBatch"}
    | {b"collation", b"allowDiskUse", b"let", b"noCursorTimeout", b"returnKey", b"showRecordId", b"max", b"min"},
    "getMore": _COMMON | {b"getMore", b"collection", b"batchSize"},
    "insert": _WRITE | {b"insert", b"documents"},
    "update": _WRITE | {b"update", b"updates"},
    "delete": _WRITE | {b"delete", b"deletes"},
}


class Straight:
    def __init__(self, host: RouterHost, passing: Passing) -> None:
        self._host = host
        self._passing = passing
        self._finishing: set[asyncio.Task[None]] = set()

    def send(self, client: Client, message: Message) -> Exchange | None:
        """Sent, and the client gets the reply; None, and nothing was sent, where it has to go the long way."""
        known = FIELDS.get(message.command)
        if known is None or message.op != OP_MSG:
            return None
        exchange = Exchange(self._host, self._passing, self._finishing, client, message)
        try:
            if not known.issuperset(message.fields):
                return None
            if message.command == "getMore":
                cursor = self._passing.cursors.get(message.number(b"getMore") or 0)
                if cursor is None or cursor.host != ON_ROUTER_HOST:
                    return None
            exchange.connection = self._host.send(message, self._passing.cursors, exchange)
        except (ProtocolError, RouterError):
            return None  # the long way finds it again, and says so
        return None if exchange.connection is None else exchange

    async def close(self) -> None:
        """Until every write is done that had to be sent again: nobody waits for the rest any more."""
        await asyncio.gather(*self._finishing, return_exceptions=True)


class Exchange:
    """One message at the router host, until its reply or its end."""

    __slots__ = ("_client", "_finishing", "_host", "_message", "_passing", "_rest", "connection")

    def __init__(
        self,
        host: RouterHost,
        passing: Passing,
        finishing: set[asyncio.Task[None]],
        client: Client,
        message: Message,
    ) -> None:
        self._host = host
        self._passing = passing
        self._finishing = finishing
        self._client: Client | None = client
        self._message = message
        self.connection: Connection | None = None
        self._rest: asyncio.Task[None] | None = None

    def reply(self, raw: bytes) -> None:
        assert self.connection is not None and self._client is not None
        self._host.release(self.connection)
        try:
            reply = Message(raw)
            self._passing.note(self._message, reply, ON_ROUTER_HOST)
            if unnumbered.left_out(self._message, reply):
                self._rest = asyncio.create_task(self._finish(reply))
                self._finishing.add(self._rest)
                self._rest.add_done_callback(self._finishing.discard)
                return
            answer = passed_on(reply)
        except Exception as error:
            self._client.failed(error)
        else:
            self._client.answered(answer)

    async def _finish(self, reply: Message) -> None:
        try:
            answer = await unnumbered.finish(self._passing, self._message, reply)
        except Exception as error:
            self.lost(error)
        else:
            if self._client is not None:
                self._client.answered(answer)

    def lost(self, error: Exception) -> None:
        if self._client is not None:
            self._client.failed(error)

    def cancel(self) -> None:
        """A reply may still come, and nobody could tell whose: the connection is closed."""
        assert self.connection is not None
        self._client = None
        if self._rest is None:
            self.connection.close()
