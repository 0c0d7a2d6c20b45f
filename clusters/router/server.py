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
from clusters.wire.framing import read_room, take
from clusters.wire.message import (
    HEADER,
    MORE_TO_COME,
    OP_COMPRESSED,
    OP_MSG,
    OP_QUERY,
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

QUEUED: Final = 100
"""Commands that a client may have sent ahead of their replies; beyond that nothing is read from it for the while."""

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


class Running(Protocol):
    """A command on its way: a task, or a message that waits for its reply."""

    def cancel(self) -> object:
        """Give it up; nothing of it reaches the client any more."""


class Answers(Protocol):
    """Who says what a command does."""

    def pass_on(self, client: Client, message: Message) -> Running | None:
        """Sent on at once, and `answered` or `failed` is called later; None where `answer` has to be asked."""

    async def answer(self, client: Client, message: Message) -> bytes:
        """The framed reply. An exception becomes the reply that `error` makes of it."""

    def error(self, error: Exception, message: Message | None, request_id: int) -> bytes:
        """The framed reply to a request that failed; `message` is None where it could not be read."""


class Client(asyncio.BufferedProtocol):
    """One client's connection. No task of its own: an idle one costs no more than its buffers."""

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
        self._room = read_room()
        self._buffer = bytearray()
        self._queue: deque[bytes] = deque()
        self._writable = True
        self._reading = True
        self._transport: asyncio.Transport | None = None
        self._gone = False
        self._running: Running | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transport is one in behaviour only.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")  # None where the client is gone already
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "gone"
        self._clients.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._queue += take(self._buffer, self._room[:nbytes], SPOKEN)
        except ProtocolError as error:
            self._refuse(error)
            return
        self._go_on()
        if len(self._queue) > QUEUED and not self._gone:
            assert self._transport is not None
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._queue.clear()
        # A write goes on without its client, as in a server: its outcome must not depend on who listens.
        if self.message is None or self.message.command in READS:
            self.end()

    # the command loop

    def close(self) -> None:
        """At once; no queued command begins any more."""
        self._queue.clear()
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> asyncio.Task[None] | None:
        """Close, and give up what runs. Gives the task that has yet to notice."""
        self.close()
        self._gone = True
        self._clients.discard(self)
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
        return running if isinstance(running, asyncio.Task) else None

    def interrupt(self, error: Exception) -> None:
        """End the command that runs with this error; the client stays."""
        running = self._running
        if running is not None:
            running.cancel()
            self.failed(error)

    def answered(self, reply: bytes) -> None:
        """The framed reply to the command that runs."""
        assert self._transport is not None and self.message is not None
        silent = self.message.op == OP_MSG and self.message.flags & MORE_TO_COME
        self.message = self._running = None
        if self._gone:
            self._clients.discard(self)
        elif not silent:
            self._transport.write(reply)
        if self._queue:
            self._go_on()

    def failed(self, error: Exception) -> None:
        """What the command that runs ended with."""
        assert self.message is not None
        self.answered(self._router.error(error, self.message, self.message.request_id))

    def _go_on(self) -> None:
        """The next command, where none runs and the client takes its replies."""
        while self._queue and self.message is None and self._writable and not self._gone:
            self._begin(self._queue.popleft())
        if not self._reading and len(self._queue) <= QUEUED and not self._gone:
            assert self._transport is not None
            self._reading = True
            self._transport.resume_reading()

    def _begin(self, raw: bytes) -> None:
        _length, request_id, _response_to, op = HEADER.unpack_from(raw)
        if op == OP_COMPRESSED:
            assert self._transport is not None
            self._transport.write(self._router.error(COMPRESSED, None, request_id))
            return
        try:
            message = Message(raw)
            message.command  # noqa: B018 a body that is no BSON shows here
        except (ProtocolError, ValueError, LookupError, struct.error) as error:
            self._refuse(error)
            return
        self.message, self.since = message, time.monotonic()
        self._running = self._router.pass_on(self, message)
        if self._running is None:
            self._running = asyncio.create_task(self._answer(message))

    async def _answer(self, message: Message) -> None:
        try:
            reply = await self._router.answer(self, message)
        except Exception as error:
            self.failed(error)
        else:
            if more_to_come(reply):
                self._queue.appendleft(again(message.raw, reply))
            self.answered(reply)

    def _refuse(self, error: Exception) -> None:
        log.warning("client %s sent %s; closed", self.peer, error)
        self.close()
