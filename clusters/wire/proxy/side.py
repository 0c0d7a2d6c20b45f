"""One socket of a connection through the proxy."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final, cast

from clusters.wire.framing import read_room

if TYPE_CHECKING:
    from clusters.wire.proxy.flow import Flow
    from clusters.wire.proxy.pair import Pair

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: close sends RST."""


class Side(asyncio.BufferedProtocol):
    """`out` carries what it sends, `feed` what it gets."""

    __slots__ = ("_paused", "_room", "closed", "feed", "open", "out", "pair", "transport", "writable")

    feed: Flow
    out: Flow
    transport: asyncio.Transport

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.open = False
        """Connected, and not closed by anybody yet."""
        self.closed = False
        self.writable = True
        self._paused = False
        self._room = read_room()

    def read(self, on: bool) -> None:
        if self.open and on == self._paused:
            self._paused = not on
            if on:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def end(self, reset: bool) -> None:
        """Close once all that was written is sent, or reset at once."""
        if not self.open:
            return
        self.open, self.closed = False, True
        if reset:
            # None where uvloop has lost the socket already.
            if (one := self.transport.get_extra_info("socket")) is not None and one.fileno() >= 0:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()
        else:
            self.transport.close()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transport is one in behaviour only.
        self.transport = cast(asyncio.Transport, transport)
        self.open = True
        self.pair.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.out.arrived(self._room[:nbytes])

    def pause_writing(self) -> None:
        self.writable = False
        self.feed.settle()

    def resume_writing(self) -> None:
        self.writable = True
        self.feed.drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open, self.closed = False, True
        self.pair.lost(self, reset=exc is not None)
