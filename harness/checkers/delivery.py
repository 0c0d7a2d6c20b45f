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
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from harness.checkers.columns import FAILED, NEVER, OK, UNKNOWN, Stream, Writes
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import at

NAME = "delivery"
STATEMENT = "Every acknowledged write's event is delivered once per stream, in order per document."

PROBLEMS_SHOWN = 100


@dataclass(slots=True)
class _Tally:
    """What is wrong with one stream: indexes of writes that are missing, positions of deliveries that should not be."""

    stream: Stream
    writes: Writes
    required: int = 0
    gaps: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    out_of_order: list[tuple[int, int]] = field(default_factory=list)
    """With the index of the later write that came before."""
    unexpected: list[int] = field(default_factory=list)
    open_end: str | None = None
    """Why its last events may still have been to come; None: it is judged to the end."""

    @property
    def missing(self) -> list[int]:
        return self.gaps if self.open_end else self.gaps + self.tail

    @property
    def problem_count(self) -> int:
        return len(self.missing) + len(self.doubled) + len(self.out_of_order) + len(self.unexpected)

    def sentences(self) -> Iterator[str]:
        """The problems in words, what is lost first. Made one by one: there may be as many as there are events."""
        stream, writes = self.stream, self.writes
        of = f"stream {stream.name}: event"
        for index in self.missing:
            yield f"{of} {writes.name(index)} missing; acknowledged at {at(writes.ended[index])}"
        for position in self.doubled:
            index = stream.delivered[position]
            first = at(stream.delivered_at[stream.delivered.index(index)])
            yield f"{of} {writes.name(index)} doubled; delivered at {first} and at {at(stream.delivered_at[position])}"
        for position, last in self.out_of_order:
            name, delivered = writes.name(stream.delivered[position]), at(stream.delivered_at[position])
            yield f"{of} {name} out of order; delivered at {delivered} after seq {writes.seq[last]}"
        for position in self.unexpected:
            index = stream.delivered[position]
            refused = writes.outcome[index] == FAILED
            yield f"{of} {writes.name(index)} delivered at {at(stream.delivered_at[position])} although " + (
                f"the server refused the write at {at(writes.ended[index])}"
                if refused
                else "no such write is in the record"
            )

    def doubts(self) -> Iterator[str]:
        if self.stream.opened < 0:
            yield f"stream {self.stream.name}: has events, but its opening is not in the record"
        if self.tail and self.open_end:
            yield (
                f"stream {self.stream.name}: {len(self.tail)} events not delivered; not judged, because {self.open_end}"
            )

    def row(self) -> dict[str, Any]:
        return {
            "stream": self.stream.name,
            "required": self.required,
            "delivered": len(self.stream.delivered),
            "missing": len(self.gaps) + len(self.tail),
            "gaps": len(self.gaps),
            "doubled": len(self.doubled),
            "out_of_order": len(self.out_of_order),
            "unexpected": len(self.unexpected),
            "judged_to_the_end": self.open_end is None,
        }


def examine(digest: Digest, _context: Context) -> Finding:
    """`evidence.streams` has a row per stream; `problems` names at most PROBLEMS_SHOWN, `problem_count` says all."""
    open_end = incomplete(digest) or _unhealed(digest)
    tallies = [_tally(digest, stream, open_end) for stream in digest.streams.values()]
    problem_count = sum(tally.problem_count for tally in tallies)
    problems = islice(chain.from_iterable(tally.sentences() for tally in tallies), PROBLEMS_SHOWN)
    doubts = [doubt for tally in tallies for doubt in tally.doubts()]
    if not any(tally.required or tally.stream.delivered for tally in tallies):
        doubts += [open_end] if open_end else [] if digest.streams else ["no stream was opened"]
    outcome = digest.writes.outcome
    evidence: dict[str, Any] = {
        "writes": {
            "acknowledged": outcome.count(OK),
            "failed": outcome.count(FAILED),
            "unknown": outcome.count(UNKNOWN),
        },
        "exact": sum(not (tally.problem_count or tally.tail) for tally in tallies),
        "streams": [tally.row() for tally in tallies],
        "problem_count": problem_count,
        "problems": list(problems),
        "doubts": doubts,
    }
    return Finding(NAME, False if problem_count else "unknown" if doubts else True, STATEMENT, evidence)


def _unhealed(digest: Digest) -> str | None:
    unhealed = [fault.id for fault in digest.faults.values() if fault.healed < 0]
    return f"fault {', '.join(unhealed)} was not healed" if unhealed else None


def _tally(digest: Digest, stream: Stream, open_end: str | None) -> _Tally:
    writes = digest.writes
    tally = _Tally(stream, writes, open_end=open_end)
    if stream.closed_early:
        tally.open_end = f"it was closed at {at(stream.closed)} ({stream.closed_reason})"
    seen = bytearray(len(writes))
    latest = _deliveries(tally, seen)
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
            (tally.gaps if followed else tally.tail).append(index)
    return tally


def _deliveries(tally: _Tally, seen: bytearray) -> array[int]:
    """Goes through what was delivered; gives, by key, the delivered write with the highest sequence, or -1."""
    writes = tally.writes
    keys, seqs, outcomes = writes.key, writes.seq, writes.outcome
    latest = array("l", [-1]) * len(writes.keys)
    for position, index in enumerate(tally.stream.delivered):
        if seen[index]:
            tally.doubled.append(position)
            continue
        seen[index] = 1
        key = keys[index]
        last = latest[key]
        if last < 0 or seqs[index] > seqs[last]:
            latest[key] = index
        elif outcomes[index] == OK and writes.ended[index] < writes.invoked[last]:
            tally.out_of_order.append((position, last))
        if outcomes[index] in (FAILED, NEVER):
            tally.unexpected.append(position)
    return latest
