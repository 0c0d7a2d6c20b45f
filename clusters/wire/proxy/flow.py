"""One direction of a connection: what arrives on one socket goes out on the other, at once, later or not at all.

Both directions hold at most `HELD` bytes, and one message where messages are read; then nothing more is read from the
sender, whose own sending stops in turn.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from clusters.wire.framing import take
from clusters.wire.message import (
    HEADER,
    MAX_MESSAGE,
    MORE_TO_COME,
    OP_COMPRESSED,
    OP_MSG,
    OP_QUERY,
    OP_REPLY,
    ProtocolError,
)
from clusters.wire.proxy.book import Active, Effects
from clusters.wire.proxy.frames import Frames
from clusters.wire.proxy.rules import Direction

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair, Side

HELD: Final = 1 << 20
KEPT: Final = 16 * 1024
"""The last request is remembered up to this size, if it came in one read, should reading begin while its reply is
outstanding. The reply to any other passes then."""
SLICES: Final = 20
"""Into how many pieces a second's bytes are cut where bandwidth is limited."""
KNOWN: Final = frozenset((OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG, 2001, 2002, 2005, 2006, 2007, 2010, 2011))
"""Op codes of the wire protocol, the removed ones too."""

_LENGTH: Final = struct.Struct("<i")
_START: Final = struct.Struct("<iiiiI")
"""Header and flags: no message is shorter (OP_REPLY's flags are none of these)."""


class Piece(NamedTuple):
    """Bytes on their way, not before `due` (loop time) nor while the rule `gate` is in force. No bytes: the end."""

    due: float
    data: bytes
    gate: Active | None = None
    reset: bool = False


class Verdict(NamedTuple):
    """What the rules say of one message."""

    lost: Active | None = None
    gate: Active | None = None
    delays: tuple[Active, ...] = ()


PASSES: Final = Verdict()


class Flow:
    """`source` is read, `sink` is written. `arrived` is for the two kinds below."""

    __slots__ = (
        "_timer",
        "direction",
        "discarded",
        "effects",
        "frames",
        "over",
        "pair",
        "queue",
        "queued",
        "reading",
        "sink",
        "source",
        "straight",
    )  # fmt: skip

    def __init__(self, pair: Pair, source: Side, sink: Side, direction: Direction) -> None:
        self.pair, self.source, self.sink, self.direction = pair, source, sink, direction
        source.out = self
        sink.feed = self
        self.frames = Frames()
        self.effects = NO_EFFECTS[direction]
        self.queue: deque[Piece] = deque()
        self.queued = 0
        self.reading = False
        """Whether messages are looked at."""
        self.straight = False
        """Whether bytes go on as they come: nothing queued, no effect, nothing read."""
        self.discarded: Active | None = None
        """The rule that lets everything go nowhere from now on."""
        self.over = False
        self._timer: asyncio.TimerHandle | None = None

    # what arrives

    def arrived(self, view: memoryview) -> None:
        """Bytes that the source sent; `view` is its read buffer, used again for the next ones."""
        raise NotImplementedError

    def ended(self, reset: bool) -> None:
        """The source closed, or reset, its side."""
        self.over = True
        if self.discarded is None:
            self._put(b"", tuple(self.effects.delays), None, reset)

    def emit(self, data: bytes, verdict: Verdict = PASSES) -> None:
        """Bytes for the sink, after all before them."""
        if self.sink.closed:
            return
        effects = self.effects
        if verdict is PASSES and effects.plain and not self.queue and self.sink.open:
            self.sink.transport.write(data)
            return
        for active in effects.holds:
            active.acted(self.pair, len(data))
        delays = (*effects.delays, *verdict.delays)
        for active in delays:
            active.acted(self.pair, len(data))
        if not effects.rates:
            self._put(data, delays, verdict.gate)
            return
        step = max(1024, int(min(active.rule.bytes_per_second for active in effects.rates) / SLICES))
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            for active in effects.rates:
                active.acted(self.pair, len(piece))
            self._put(piece, delays, verdict.gate)

    def _put(self, data: bytes, delays: tuple[Active, ...], gate: Active | None, reset: bool = False) -> None:
        now = self.pair.loop.time()
        due = now
        if data:
            for active in self.effects.rates:
                due = max(due, active.passed(self.direction, now, len(data)))
        for active in delays:
            due += active.lag()
        self.queue.append(Piece(due, data, gate, reset))
        self.queued += len(data)
        self.straight = False
        self.drain()

    # what leaves

    def drain(self) -> None:
        """Send what may be sent now; come back when the next piece is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        queue = self.queue
        if queue and not self.effects.holds:
            if not self.sink.open:
                self.pair.dial()
            now = self.pair.loop.time()
            while queue and self.sink.open and self.sink.writable:
                due, data, gate, reset = queue[0]
                if gate is not None and not gate.removed:
                    break
                if due > now:
                    self._timer = self.pair.loop.call_at(due, self.drain)
                    break
                queue.popleft()
                if not data:
                    self.sink.end(reset)
                    return
                self.queued -= len(data)
                self.sink.transport.write(data)
        self.settle()

    def settle(self) -> None:
        """Read on or wait, straight or not, as things stand now."""
        self.straight = not (self.queue or self.reading or self.discarded) and self.effects.plain and self.sink.open
        flows = self.queued < HELD and (self.sink.writable or not self.sink.open)
        self.source.read(flows or self.discarded is not None)

    def apply(self, effects: Effects, reading: bool) -> None:
        """Other rules from now on."""
        self.effects = effects
        self.reading = reading and not self.frames.lost
        self.drain()

    def hurry(self) -> None:
        """Nothing waits for a time that a removed rule gave it; what another rule gave it goes with it."""
        self.queue = deque(piece._replace(due=0.0) for piece in self.queue)

    def discard(self, active: Active) -> None:
        """From now on everything goes nowhere, what is on its way too."""
        self.discarded = active
        self.clear()
        self.settle()

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.queue.clear()
        self.queued = 0

    def lose(self, data: bytes) -> None:
        """No message can be told from the next one any more: bytes from here on."""
        self.frames.lost = True
        self.reading = False
        self.pair.link.unreadable += 1
        if data:
            self.emit(data)
        self.settle()


class Requests(Flow):
    """From a client to the target. Its first message says who the client is; before that nothing goes on."""

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
            if self.frames.left == 0 and size >= 4 and _LENGTH.unpack_from(data)[0] == size:
                self.pair.last = data if _START.size <= size <= KEPT else None
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
        if self._kept and not self.first and not reading:
            self._forget()
        super().apply(effects, reading)

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
            self.pair.last = raw if _START.size <= len(raw) <= KEPT else None
            if self.discarded is not None:
                self.discarded.acted(self.pair, len(raw))
            elif not self.reading:
                self.emit(raw)
            elif (verdict := self.pair.asks(raw)) is not None:
                self.emit(raw, verdict)
            if self.pair.over:
                return
        if self._kept and not self.first and not self.reading and self.discarded is None:
            self._forget()


class Replies(Flow):
    """From the target to a client. A reply is judged by its header; its bytes go on as they come."""

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
        if self._begun and not reading:
            begun, self._begun = self._begun, b""
            self.frames.see(begun)
            self.emit(begun)
        if not reading:
            self._verdict = PASSES
        super().apply(effects, reading)

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
            if end - at < _START.size:
                self._begun = data[at:]
                return
            length, request_id, response_to, op, flags = _START.unpack_from(data, at)
            if not HEADER.size <= length <= MAX_MESSAGE or op not in KNOWN:
                self._verdict = PASSES
                self.lose(data[at:])
                return
            took = min(length, end - at)
            self.frames.left = length - took
            self._verdict = self.pair.answers(request_id, response_to, op == OP_MSG and bool(flags & MORE_TO_COME))
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


NO_EFFECTS: Final = {direction: Effects([], direction) for direction in Direction}
