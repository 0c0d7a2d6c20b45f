"""One direction of a connection: what arrives on one socket goes out on the other, at once, later or not at all.

Both directions hold at most `HELD` bytes, and one message where messages are read; then nothing more is read from the
sender, whose own sending stops in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from clusters.wire.proxy.book import Active
from clusters.wire.proxy.effects import NO_EFFECTS, PASSES, Effects, Verdict
from clusters.wire.proxy.frames import Frames
from clusters.wire.proxy.rules import Direction

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair
    from clusters.wire.proxy.side import Side

HELD: Final = 1 << 20
SLICES: Final = 20
"""Into how many pieces a second's bytes are cut where bandwidth is limited."""


class Piece(NamedTuple):
    """Bytes on their way, not before `due` (loop time) nor while the rule `gate` is in force. No bytes: the end."""

    due: float
    data: bytes
    gate: Active | None = None
    reset: bool = False


class Flow:
    """`source` is read, `sink` is written. `arrived` is for the two directions to say."""

    __slots__ = (
        "_timer",
        "direction",
        "discarded",
        "effects",
        "frames",
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
        self._timer: asyncio.TimerHandle | None = None

    # what arrives

    def arrived(self, view: memoryview) -> None:
        """Bytes that the source sent; `view` is its read buffer, used again for the next ones."""
        raise NotImplementedError

    def ended(self, reset: bool) -> None:
        """The source closed, or reset, its side."""
        if self.discarded is None:
            self._put(b"", tuple(self.effects.delays), None, reset)

    def emit(self, data: bytes, verdict: Verdict = PASSES) -> None:
        """Bytes for the sink, after all before them."""
        if self.sink.closed or not data:
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
        self.emit(data)
        self.settle()
