"""One asyncio connection to one mongod or mongos: a command out, a reply back, under a deadline.

For the router, bring-up and watchers, which need what a driver hides: an internal client's handshake, the read
preference as given, and to know that a request was sent and never answered. Load on the cluster uses pymongo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from clusters.wire import access, addresses
from clusters.wire.framing import read_room, take
from clusters.wire.message import (
    OP_MSG,
    OP_REPLY,
    Message,
    ProtocolError,
    decode,
    encode,
    next_request_id,
)
from clusters.wire.scram import NotTrusted

INTERNAL_WIRE_VERSION = 17
"""What 6.0 members put into `internalClient` of their hello; it makes the server treat us as a fellow server."""

APP_NAME: Final = "mongofault"
"""How a connection calls itself unless it has a name of its own; a network fault or a fail point can be aimed by it."""

_ANSWERS: Final = frozenset((OP_MSG, OP_REPLY))


COMMAND_NOT_FOUND: Final = 59


class CommandFailed(Exception):
    """The server answered `ok: 0`. Carries code, name and the whole reply."""

    def __init__(self, host: str, command: str, reply: Mapping[str, Any]) -> None:
        self.host = host
        self.command = command
        self.reply = reply
        self.code: int = int(reply.get("code", 0))
        self.code_name: str = str(reply.get("codeName", ""))
        super().__init__(f"{command} on {host} failed: {self.code} {self.code_name}: {reply.get('errmsg', '')}")


class ConnectionLost(Exception):
    """The connection could not be made, or broke before the reply; whether the command ran is not known."""


class DeadlinePassed(TimeoutError):
    """No reply by the deadline. The connection is closed: a late reply would be taken for the next one's."""


class Waiting(Protocol):
    """Whom a reply is for: one of the two is called, once."""

    def reply(self, raw: bytes) -> None:
        """The framed reply. The connection is free again."""

    def lost(self, error: Exception) -> None:
        """The connection broke or was closed before the reply."""


class _Awaited(asyncio.Future[bytes]):
    """For a coroutine, which may have been cancelled meanwhile."""

    def reply(self, raw: bytes) -> None:
        if not self.done():
            self.set_result(raw)

    def lost(self, error: Exception) -> None:
        if not self.done():
            self.set_exception(error)


class Connection(asyncio.BufferedProtocol):
    """One command at a time. `host` is `address:port`, or the name that `addresses` knows. Make it with `open`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.hello: dict[str, Any] = {}
        self._knows_hello = True
        self._transport: asyncio.Transport | None = None
        self._room = read_room()
        self._buffer = bytearray()
        self._waiting: Waiting | None = None
        self._lost: Exception | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        *,
        deadline: float,
        internal: bool = False,
        app_name: str = APP_NAME,
        host_info: str | None = None,
    ) -> Connection:
        """Connect, shake hands and, where access to the host was granted so, authenticate, within `deadline` seconds.

        Raises ConnectionLost or DeadlinePassed; CommandFailed where the server does not accept who we say we are.
        `internal`: as a fellow server; every command then needs explicit readConcern or writeConcern (measured on
        6.0.5). `host_info`: what servers say of themselves, `address:port`, by which a proxy knows one from another.
        """
        self = cls(host)
        address, _, port = addresses.of(host).rpartition(":")
        granted = access.to(host)
        try:
            async with asyncio.timeout(deadline):
                try:
                    await asyncio.get_running_loop().create_connection(
                        lambda: self, address.strip("[]"), int(port), ssl=granted.tls
                    )
                except OSError as error:
                    raise ConnectionLost(f"cannot connect to {host}: {error.strerror or error}") from error
                hello: dict[str, Any] = {
                    "hello": 1,
                    "client": {
                        "application": {"name": app_name},
                        "driver": {"name": "mongofault", "version": "1"},
                        "os": {"type": "Linux"},
                    },
                }
                if host_info is not None:
                    hello["hostInfo"] = host_info
                if internal:
                    hello["internalClient"] = {
                        "minWireVersion": INTERNAL_WIRE_VERSION,
                        "maxWireVersion": INTERNAL_WIRE_VERSION,
                    }
                self.hello = await self._greet({**hello, **access.asked_for(granted)})
                await access.prove(self, granted)
        except NotTrusted as error:
            self.close()
            raise ConnectionLost(f"{host}: {error}") from None
        except TimeoutError as error:
            self.close()
            raise DeadlinePassed(f"{host}: no handshake within {deadline:g} s") from error
        except BaseException:
            self.close()
            raise
        return self

    @property
    def usable(self) -> bool:
        """Open, and no command is waiting for its reply."""
        return self._lost is None and self._waiting is None

    def close(self) -> None:
        if self._lost is None:
            self._lost = ConnectionLost(f"connection to {self.host} was closed here")
        if self._transport is not None:
            self._transport.abort()
        self._fail(self._lost)

    async def command(
        self, database: str, document: Mapping[str, Any], *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Run a command; the reply as a dict. Raises CommandFailed, ConnectionLost, DeadlinePassed (seconds)."""
        old_hello = not self._knows_hello and "hello" in document
        sent = {"isMaster": 1, **{key: document[key] for key in document if key != "hello"}} if old_hello else document
        reply = await self.request(encode({**sent, "$db": database}, request_id=next_request_id()), deadline=deadline)
        answer = decode(reply.body)
        if answer.get("ok") != 1:
            raise CommandFailed(self.host, next(iter(sent)), answer)
        return {**answer, "isWritablePrimary": answer["ismaster"]} if old_hello else answer

    async def _greet(self, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Servers before 4.4.2 (4.2.6 among them) have `hello` by its older name alone, here and from now on."""
        try:
            return await self.command("admin", hello)
        except CommandFailed as error:
            if error.code != COMMAND_NOT_FOUND:
                raise
            self._knows_hello = False
            return await self.command("admin", hello)

    async def request(self, raw: bytes, *, deadline: float | None = None) -> Message:
        """Send one framed message, give back the reply, whatever it says."""
        if self._lost is not None:
            raise ConnectionLost(str(self._lost))
        if self._waiting is not None:
            raise RuntimeError(f"a command is already waiting on this connection to {self.host}")
        waiting = _Awaited()
        self.send(raw, waiting)
        try:
            if deadline is None:
                return Message(await waiting)
            async with asyncio.timeout(deadline):
                return Message(await waiting)
        except TimeoutError as error:
            self.close()
            raise DeadlinePassed(f"{self.host}: no reply within {deadline:g} s") from error
        except asyncio.CancelledError:
            # A reply may still come; nobody can tell whose it would be.
            self.close()
            raise

    def send(self, raw: bytes, waiting: Waiting) -> None:
        """Send one framed message on a `usable` connection; nothing here limits how long its reply may take."""
        assert self._transport is not None
        self._waiting = waiting
        self._transport.write(raw)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transport is one in behaviour only.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        try:
            messages = take(self._buffer, self._room[:nbytes], _ANSWERS)
        except ProtocolError as error:
            self._lost = ConnectionLost(f"{self.host} sent {error}")
            self.close()
            return
        for raw in messages:
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.reply(raw)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost is None:
            self._lost = ConnectionLost(f"{self.host} closed the connection" + (f": {exc}" if exc else ""))
        self._fail(self._lost)

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.lost(error)
