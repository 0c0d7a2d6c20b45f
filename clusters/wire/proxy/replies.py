"""The direction from the target to a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.wire.message import HEADER, MAX_MESSAGE, MORE_TO_COME, OP_MSG
from clusters.wire.proxy.effects import PASSES, Effects
from clusters.wire.proxy.flow import Flow
from clusters.wire.proxy.frames import KNOWN, START
from clusters.wire.proxy.rules import Direction

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair
    from clusters.wire.proxy.side import Side


class Replies(Flow):
    """A reply is judged by its header, which says to what it is one; its bytes go on as they come."""

    __slots__ = ("_begun", "_verdict")

    def __init__(self, pair: Pair, source: Side, sink: Side) -> None:
        super().__init__(pair, source, sink, Direction.FROM)
        self._begun = b""
        """The beginning of a message, too short to be judged."""
        self._verdict = PASSES

    def arrived(self, view: memoryview) -> None:
        last = self.pair.last
        if last is not None and not last[18] & 1:
            self.pair.last = None
        if self.straight:
            data = bytes(view)
            self.frames.see(data)
            self.sink.transport.write(data)
        elif self.discarded is not None:
            self.discarded.acted(self.pair, len(view))
        elif self.reading:
            self._read(self._begun + bytes(view) if self._begun else bytes(view))
        else:
            self.frames.see(view)
            self._pass(bytes(view))

    def apply(self, effects: Effects, reading: bool) -> None:
        if not reading:
            self._forget()
            self._verdict = PASSES
        super().apply(effects, reading)

    def ended(self, reset: bool) -> None:
        if self.discarded is None:
            self._forget()
        super().ended(reset)

    def _forget(self) -> None:
        """The beginning of a message that waited to be judged goes on as it is."""
        begun, self._begun = self._begun, b""
        self.frames.see(begun)
        self.emit(begun)

    def _read(self, data: bytes) -> None:
        self._begun = b""
        at, end = 0, len(data)
        if self.frames.left:
            at = self.frames.rest(data)
            if self.frames.lost:
                self.lose(data)
                return
            self._pass(data[:at])
        while at < end:
            if end - at < START.size:
                self._begun = data[at:]
                return
            length, request_id, response_to, op, flags = START.unpack_from(data, at)
            if not HEADER.size <= length <= MAX_MESSAGE or op not in KNOWN:
                self._verdict = PASSES
                self.lose(data[at:])
                return
            took = min(length, end - at)
            self.frames.left = length - took
            self._verdict = self.pair.exchange.answers(
                request_id, response_to, op == OP_MSG and bool(flags & MORE_TO_COME)
            )
            self._pass(data[at : at + took])
            at += took

    def _pass(self, data: bytes) -> None:
        lost = self._verdict.lost
        if lost is None:
            self.emit(data, self._verdict)
        else:
            lost.acted(self.pair, len(data))
        if not self.frames.left:
            self._verdict = PASSES
