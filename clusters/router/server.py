"""The listening side: one protocol and one task a client, one command at a time, replies in order.

Knows bytes and connections; what a command does is decided in `dispatch`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import struct
import time
from collections import deque
from typing import Final, Protocol, cast

from clusters.router.errors import RouterError
from clusters.wire.message import (
    HEADER,
    MAX_MESSAGE,
    MORE_TO_COME,
    OP_COMPRESSED,
    OP_MSG,
    OP_QUERY,
    READ_BYTES,
    Message,
    ProtocolError,
)

log = logging.getLogger("mongofault.router")

READS: Final = frozenset(
    ("find", "aggregate", "getMore", "count", "distinct", "hello", "isMaster", "ismaster", "ping", "waitForFailPoint")
)
"""Ended when their client goes away, as a server does; any other command runs to its end."""

SPOKEN: Final = frozenset((OP_MSG, OP_QUERY, OP_COMPRESSED))
"""OP_COMPRESSED only to be refused in words."""

_numbers = itertools.count(1)

COMPRESSED: Final = RouterError(
    115, "CommandNotSupported", "the stand-in router speaks no compression; connect without `compressors`"
)


def more_to_come(reply: bytes) -> bool:
    """Whether the reply announces another one, which the client will not ask for (exhaust)."""
    return HEADER.unpack_from(reply)[3] == OP_MSG and bool(reply[16] & MORE_TO_COME)


def again(raw: bytes, reply: bytes) -> bytes:
    """The same request once more, as if asked with the id of the last reply: so a server streams."""
    return raw[:4] + reply[4:8] + raw[8:]


class Answers(Protocol):
    """Who says what a command does."""

    async def answer(self, client: Client, message: Message) -> bytes:
        """The framed reply. An exception becomes the reply that `error` makes of it."""

    def error(self, error: Exception, message: Message | None, request_id: int) -> bytes:
        """The framed reply to a request that failed; `message` is None where it could not be read."""


class Client(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, router: Answers, clients: set[Client]) -> None:
        self.number = next(_numbers)
        self.peer = ""
        self.app_name = ""
        """As its first hello gave it."""
        self.message: Message | None = None
        """The command that runs now, and since when (monotonic)."""
        self.since = 0.0
        self._router = router
        self._clients = clients
        self._room = memoryview(bytearray(READ_BYTES))
        self._buffer = bytearray()
        self._queue: deque[bytes] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._gone = False
        self.task: asyncio.Task[None] | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transport is one in behaviour only.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")  # None where the client is gone already
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "gone"
        self._clients.add(self)
        self.task = asyncio.create_task(self._serve(), name=f"client {self.peer}")
        self.task.add_done_callback(self._served)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self._buffer
        buffer += self._room[:nbytes]
        while len(buffer) >= 16:
            length, _request_id, _response_to, op = HEADER.unpack_from(buffer)
            # Looked at before the message is whole: the first bytes of TLS are a plausible length.
            if not 16 <= length <= MAX_MESSAGE or op not in SPOKEN:
                tls = buffer[:2] == b"\x16\x03"
                log.warning("client %s sent %s; closed", self.peer, "TLS, not spoken here" if tls else "no message")
                self.close()
                return
            if len(buffer) < length:
                break
            self._queue.append(bytes(buffer[:length]))
            del buffer[:length]
        if self._queue and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._writable.set()
        # A write goes on without its client, as in a server: its outcome must not depend on who listens.
        if self.task is not None and (self.message is None or self.message.command in READS):
            self.task.cancel()

    # the command loop

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _served(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(self)
        if not task.cancelled() and task.exception() is not None:
            log.error("client %s", self.peer, exc_info=task.exception())
        self.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._gone:
            if not self._queue:
                self._arrived = loop.create_future()
                await self._arrived
            raw = self._queue.popleft()
            reply = await self._answer(raw)
            if reply and not self._gone:
                assert self._transport is not None
                self._transport.write(reply)
                if more_to_come(reply):
                    self._queue.appendleft(again(raw, reply))
                if not self._writable.is_set():
                    await self._writable.wait()

    async def _answer(self, raw: bytes) -> bytes:
        _length, request_id, _response_to, op = HEADER.unpack_from(raw)
        if op == OP_COMPRESSED:
            return self._router.error(COMPRESSED, None, request_id)
        try:
            message = Message(raw)
            message.command  # noqa: B018 a body that is no BSON shows here
        except (ProtocolError, ValueError, LookupError, struct.error) as error:
            log.warning("client %s: %s; closed", self.peer, error)
            self.close()
            return b""
        self.message, self.since = message, time.monotonic()
        try:
            reply = await self._router.answer(self, message)
        except Exception as error:
            reply = self._router.error(error, message, request_id)
        finally:
            self.message = None
        return b"" if message.op == OP_MSG and message.flags & MORE_TO_COME else reply
