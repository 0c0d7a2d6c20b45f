"""Was every acknowledged write's event delivered once per stream, in the order of its document?

It does not ask why, and not when: silences and faults are other checkers' subjects.

Required on a stream is a write invoked after the stream first opened and acknowledged before it was closed at the
end of the run. Everything else may come, at most once, except a write the server refused. The order of two writes
of one document is demanded only where the first was acknowledged before the second was invoked: a write of unknown
outcome may take effect late. Whether the last events are still to come can be known only of a complete run with all
faults healed, on a stream that was not closed early; otherwise only gaps count (an event is missing although a later
one of the same document came), and the finding is unknown if anything else is outstanding.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.checkers.columns import FAILED, NEVER, OK, UNKNOWN, Stream
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest, fold
from harness.checkers.finding import Finding
from harness.checkers.windows import at
from harness.history import Event

NAME = "delivery"
STATEMENT = "Every acknowledged write's event is delivered once per stream, in order per document."

PROBLEMS_SHOWN = 100


@dataclass(slots=True)
class _Tally:
    stream: str
    required: int = 0
    delivered: int = 0
    gaps: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    judged_to_the_end: str | None = None
    """None, or why its last events may still have been to come."""

    @property
    def problems(self) -> list[str]:
        missing = self.gaps if self.judged_to_the_end else self.gaps + self.tail
        return missing + self.doubled + self.out_of_order + self.unexpected

    def row(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "required": self.required,
            "delivered": self.delivered,
            "missing": len(self.gaps) + len(self.tail),
            "gaps": len(self.gaps),
            "doubled": len(self.doubled),
            "out_of_order": len(self.out_of_order),
            "unexpected": len(self.unexpected),
            "judged_to_the_end": self.judged_to_the_end is None,
        }


def check(events: Iterable[Event], context: Context | None = None) -> Finding:
    return examine(fold(events), context)


def examine(digest: Digest, context: Context | None = None) -> Finding:
    """`evidence.streams` has a row per stream; `problems` names at most PROBLEMS_SHOWN, `problem_count` says all."""
    open_end = incomplete(digest) or _unhealed(digest)
    tallies = [_tally(digest, stream, open_end) for stream in digest.streams.values()]
    problems = [problem for tally in tallies for problem in tally.problems]
    doubts = [
        f"stream {tally.stream}: {len(tally.tail)} events not delivered; not judged, because {tally.judged_to_the_end}"
        for tally in tallies
        if tally.tail and tally.judged_to_the_end
    ]
    if not any(tally.required or tally.delivered for tally in tallies):
        doubts += [open_end] if open_end else [] if digest.streams else ["no stream was opened"]
    outcome = digest.writes.outcome
    evidence: dict[str, Any] = {
        "writes": {
            "acknowledged": outcome.count(OK),
            "failed": outcome.count(FAILED),
            "unknown": outcome.count(UNKNOWN),
        },
        "exact": sum(not (tally.problems or tally.tail) for tally in tallies),
        "streams": [tally.row() for tally in tallies],
        "problem_count": len(problems),
        "problems": problems[:PROBLEMS_SHOWN],
        "doubts": doubts,
    }
    return Finding(NAME, False if problems else "unknown" if doubts else True, STATEMENT, evidence)


def _unhealed(digest: Digest) -> str | None:
    unhealed = [fault.id for fault in digest.faults.values() if fault.healed < 0]
    return f"fault {', '.join(unhealed)} was not healed" if unhealed else None


def _tally(digest: Digest, stream: Stream, open_end: str | None) -> _Tally:
    writes = digest.writes
    tally = _Tally(stream.name, delivered=len(stream.delivered), judged_to_the_end=open_end)
    if stream.closed_early:
        tally.judged_to_the_end = f"it was closed at {at(stream.closed)} ({stream.closed_reason})"
    if stream.opened < 0:
        tally.judged_to_the_end = "its opening is not in the record"
    seen = bytearray(len(writes))
    latest = _deliveries(digest, stream, tally, seen)
    opened = stream.opened if stream.opened >= 0 else digest.end
    closed = stream.closed if stream.closed >= 0 and not stream.closed_early else digest.end
    invoked, ended = writes.invoked, writes.ended
    for index in writes.acknowledged:
        if invoked[index] <= opened or ended[index] > closed:
            continue
        tally.required += 1
        if not seen[index]:
            last = latest[writes.key[index]]
            followed = last >= 0 and writes.seq[last] > writes.seq[index] and invoked[last] > ended[index]
            missing = tally.gaps if followed else tally.tail
            missing.append(
                f"stream {stream.name}: event {writes.name(index)} missing; acknowledged at {at(ended[index])}"
            )
    return tally


def _deliveries(digest: Digest, stream: Stream, tally: _Tally, seen: bytearray) -> array[int]:
    """Goes through what was delivered; gives, by key, the delivered write with the highest sequence, or -1."""
    writes = digest.writes
    keys, seqs, outcomes = writes.key, writes.seq, writes.outcome
    latest = array("l", [-1]) * len(writes.keys)
    for position, index in enumerate(stream.delivered):
        if seen[index]:
            tally.doubled.append(_doubled(digest, stream, index, position))
            continue
        seen[index] = 1
        key = keys[index]
        last = latest[key]
        if last < 0 or seqs[index] > seqs[last]:
            latest[key] = index
        elif outcomes[index] == OK and writes.ended[index] < writes.invoked[last]:
            tally.out_of_order.append(
                f"stream {stream.name}: event {writes.name(index)} out of order; "
                f"delivered at {at(stream.delivered_at[position])} after seq {seqs[last]}"
            )
        if outcomes[index] == FAILED:
            tally.unexpected.append(
                f"stream {stream.name}: event {writes.name(index)} delivered at {at(stream.delivered_at[position])} "
                f"although the server refused the write at {at(writes.ended[index])}"
            )
        elif outcomes[index] == NEVER:
            tally.unexpected.append(
                f"stream {stream.name}: event {writes.name(index)} delivered at {at(stream.delivered_at[position])} "
                "although no such write is in the record"
            )
    return latest


def _doubled(digest: Digest, stream: Stream, index: int, position: int) -> str:
    first = stream.delivered.index(index)
    return (
        f"stream {stream.name}: event {digest.writes.name(index)} doubled; "
        f"delivered at {at(stream.delivered_at[first])} and at {at(stream.delivered_at[position])}"
    )
