"""The direction from a client to the target. The first message says who the client is; before it nothing goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusters.wire.framing import take
from clusters.wire.message import ProtocolError
from clusters.wire.proxy.effects import Effects
from clusters.wire.proxy.flow import Flow
from clusters.wire.proxy.frames import KNOWN, LENGTH, START
from clusters.wire.proxy.rules import Direction

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair
    from clusters.wire.proxy.side import Side

KEPT: Final = 16 * 1024
"""The last request is remembered up to this size, if it came in one read, should reading begin while its reply is
outstanding. The reply to any other passes then."""


class Requests(Flow):
    """Messages are read whole: what is to become of one stands in its body, and in the first one the client's name."""

    __slots__ = ("_kept", "first")

    def __init__(self, pair: Pair, source: Side, sink: Side) -> None:
        super().__init__(pair, source, sink, Direction.TO)
        self._kept = bytearray()
        self.first = True
        """The first message is not whole yet."""

    def arrived(self, view: memoryview) -> None:
        if self.straight:
            data = bytes(view)
            size = len(data)
            if self.frames.left == 0 and size >= 4 and LENGTH.unpack_from(data)[0] == size:
                self.pair.last = data if START.size <= size <= KEPT else None
            else:
                self.frames.see(data)
                self.pair.last = None
            self.sink.transport.write(data)
        elif self.discarded is not None:
            self.discarded.acted(self.pair, len(view))
        elif self.first or self.reading:
            self._read(view)
        else:
            self.frames.see(view)
            self.pair.last = None
            self.emit(bytes(view))

    def apply(self, effects: Effects, reading: bool) -> None:
        if not self.first and not reading:
            self._forget()
        super().apply(effects, reading)

    def ended(self, reset: bool) -> None:
        if not self.first and self.discarded is None:
            self._forget()
        super().ended(reset)

    def _forget(self) -> None:
        """The beginning of a message that was kept to be read goes on unread."""
        kept, self._kept = bytes(self._kept), bytearray()
        self.frames.see(kept)
        self.emit(kept)

    def _read(self, view: memoryview) -> None:
        if self.frames.left:
            at = self.frames.rest(view)
            self.emit(bytes(view[:at]))
            if self.frames.lost:
                self.lose(bytes(view[at:]))
                return
            view = view[at:]
            if not view:
                return
        try:
            messages = take(self._kept, view, KNOWN)
        except ProtocolError:
            kept, self._kept = bytes(self._kept), bytearray()
            if self.first:
                self.first = False
                self.pair.named(None)
            if not self.pair.over:
                self.lose(kept)
            return
        for raw in messages:
            if self.first:
                raw = self.pair.named(raw)
                # Not before: what came behind it must not go on first.
                self.first = False
            if self.pair.over:
                return
            self.pair.last = raw if START.size <= len(raw) <= KEPT else None
            if self.discarded is not None:
                self.discarded.acted(self.pair, len(raw))
            elif not self.reading:
                self.emit(raw)
            else:
                verdict = self.pair.exchange.asks(raw)
                if verdict.cut is not None:
                    self.pair.reset(verdict.cut)
                    return
                self.emit(raw, verdict)
        if not (self.first or self.reading) and self.discarded is None:
            self._forget()
