"""The silent intervals of a stream: an acknowledged mark is undelivered and nothing at all is delivered.

Without an outstanding mark a stream is quiet, never silent. What our own event loop or an overloaded machine delays is
told from what is proven to be the stream's silence, by the measure of the progress watcher.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass

from harness.checkers.columns import Stream
from harness.checkers.digest import Digest
from harness.measures import DELIVERY, NS

FLOOR_SECONDS = 0.25
"""Shorter intervals are ordinary latency and not kept."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Run time in ns. `ended` is False where it lasted to the end of the record."""

    start: int
    end: int
    ended: bool
    lags: tuple[tuple[int, float], ...] = ()
    """Event-loop lags (when, seconds) measured meanwhile."""
    slack: float = 0.0
    """Seconds that a delivery may have taken anyway, so slow was the whole cluster meanwhile."""

    def within(self, start: int, end: int) -> float:
        """Seconds of it inside a window, as a clock on the wall has it."""
        return max(0, min(self.end, end) - max(self.start, start)) / NS

    def proven_within(self, start: int, end: int) -> float:
        """The same without the time in which our own event loop was late, or any delivery would have been."""
        lag = sum(lag for t, lag in self.lags if start <= t <= end)
        return max(0.0, self.within(start, end) - lag - self.slack)


def silences(digest: Digest, stream: Stream) -> list[Silence]:
    """In order. A mark is outstanding from its acknowledgement until its event, or a later one of its document, comes
    (a lost event is no silence); only writes invoked after the stream opened are marks.

    A silence starts with the last delivery, or with the acknowledgement of the first outstanding mark if later.
    """
    known = digest.silences.get(stream.name)
    if known is None:
        known = digest.silences[stream.name] = _silences(digest, stream) if stream.opened >= 0 else []
    return known


def _silences(digest: Digest, stream: Stream) -> list[Silence]:
    writes = digest.writes
    keys, seqs, invoked, ended, opened = writes.key, writes.seq, writes.invoked, writes.ended, stream.opened
    owed: list[deque[int]] = [deque() for _ in writes.keys]
    newest = array("q", [-1]) * len(writes.keys)
    count, start = 0, -1
    floor = int(FLOOR_SECONDS * NS)
    found: list[tuple[int, int, bool]] = []
    acknowledged = writes.acknowledged
    position, total = 0, len(acknowledged)

    def acknowledge_until(t: int) -> None:
        nonlocal position, count, start
        while position < total and ended[acknowledged[position]] <= t:
            index = acknowledged[position]
            position += 1
            if invoked[index] > opened and newest[keys[index]] < seqs[index]:
                owed[keys[index]].append(seqs[index])
                count += 1
                if count == 1:
                    start = ended[index]

    for index, t in zip(stream.delivered, stream.delivered_at, strict=True):
        acknowledge_until(t)
        if start >= 0 and t - start >= floor:
            found.append((start, t, True))
        key, seq = keys[index], seqs[index]
        newest[key] = max(newest[key], seq)
        marks = owed[key]
        while marks and marks[0] <= seq:
            marks.popleft()
            count -= 1
        start = t if count else -1
    last = stream.closed if stream.closed >= 0 and not stream.closed_early else digest.end
    acknowledge_until(last)
    if start >= 0 and last - start >= floor:
        found.append((start, last, False))
    return [
        Silence(first, end, over, _lags(digest, first, end), _slack(digest, first, end)) for first, end, over in found
    ]


def owed_at(digest: Digest, stream: Stream, t: int) -> dict[int, int]:
    """What a stream owed then: by position of the key, the highest sequence acknowledged and not delivered."""
    return {key: max(seqs) for key, seqs in _owed(digest, stream, t).items()}


def outstanding_at(digest: Digest, stream: Stream, t: int) -> int:
    """How many marks were outstanding then."""
    return sum(len(seqs) for seqs in _owed(digest, stream, t).values())


def _owed(digest: Digest, stream: Stream, t: int) -> dict[int, list[int]]:
    writes = digest.writes
    newest = array("q", [-1]) * len(writes.keys)
    for index in stream.delivered[: bisect_right(stream.delivered_at, t)]:
        key = writes.key[index]
        newest[key] = max(newest[key], writes.seq[index])
    owed: dict[int, list[int]] = {}
    for index in writes.acknowledged:
        if writes.ended[index] > t:
            break
        key, seq = writes.key[index], writes.seq[index]
        if writes.invoked[index] > stream.opened >= 0 and newest[key] < seq:
            owed.setdefault(key, []).append(seq)
    return owed


def _lags(digest: Digest, start: int, end: int) -> tuple[tuple[int, float], ...]:
    """A lag is recorded when it is over, so it belongs to the interval in which it was recorded."""
    low = bisect_left(digest.lags, start, key=lambda lag: lag[0])
    high = bisect_right(digest.lags, end, key=lambda lag: lag[0])
    return tuple(digest.lags[low:high])


def _slack(digest: Digest, start: int, end: int) -> float:
    """By the quickest write and the quickest hello meanwhile, as the progress watcher allows for load."""
    writes = digest.writes
    acknowledged, ended = writes.acknowledged, writes.ended
    low = bisect_left(acknowledged, start, key=ended.__getitem__)
    high = bisect_right(acknowledged, end, key=ended.__getitem__)
    write = min((ended[index] - writes.invoked[index] for index in acknowledged[low:high]), default=0) / NS
    low = bisect_left(digest.hellos, start, key=lambda hello: hello[0])
    high = bisect_right(digest.hellos, end, key=lambda hello: hello[0])
    hello = min((seconds for _, seconds in digest.hellos[low:high]), default=0.0)
    return DELIVERY * max(write, hello)
