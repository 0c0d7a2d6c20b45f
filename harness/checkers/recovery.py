"""Was each fault proven, healed and recovered from, and did each stream move again after the release?

Whether everything arrived is delivery.py's question; here it is how soon.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from harness.checkers.columns import Fault, Stream
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.silences import outstanding_at, owed_at
from harness.checkers.windows import at, seconds, windows
from harness.measures import NS

NAME = "recovery"
STATEMENT = "Every fault is proven while it acts, is healed, the cluster recovers, and every stream moves again."


def examine(digest: Digest, context: Context) -> Finding:
    """`evidence.faults`: a row per fault, `evidence.streams`: a row per stream, seconds after the release.

    Not valid where something stayed broken; unknown where a fault was not proven, not healed, or the run not complete.
    """
    cut_short = incomplete(digest)
    doubts = [cut_short] if cut_short else []
    broken: list[str] = []
    for fault in digest.faults.values():
        name = f"fault {fault.id} ({fault.fault} on {fault.target})"
        if fault.unproven is not None:
            doubts.append(f"{name} was not proven active: {fault.unproven}")
        elif fault.proven < 0:
            doubts.append(f"{name} was not proven active")
        if fault.healed < 0:
            # Before all else: something is still broken.
            doubts.insert(0, f"NOT HEALED: {name}" + (f": {fault.not_healed}" if fault.not_healed else ""))
        elif fault.recovered < 0 and not cut_short:
            broken.append(f"{name} was healed at {at(fault.healed)}, but the cluster did not recover")
    held = windows(digest, context)
    rows: list[dict[str, Any]] = []
    if held:
        release = held[-1].release
        rows = [_stream_row(digest, stream, release) for stream in digest.streams.values() if stream.opened >= 0]
        if not doubts:
            broken += [
                f"stream {row['stream']}: delivered nothing after the release, {row['backlog']} events outstanding"
                for row in rows
                if row["backlog"] and row["first_event"] is None
            ]
    first = [row["first_event"] for row in rows if row["first_event"] is not None]
    caught_up = [row["caught_up"] for row in rows if row["caught_up"] is not None]
    evidence: dict[str, Any] = {
        "faults": [_fault_row(fault) for fault in digest.faults.values()],
        "streams": rows,
        "slowest_first_event": max(first, default=None),
        "slowest_caught_up": max(caught_up, default=None),
        "problems": broken,
        "doubts": doubts,
    }
    return Finding(NAME, "unknown" if doubts else not broken, STATEMENT, evidence)


def _fault_row(fault: Fault) -> dict[str, Any]:
    def when(t: int) -> float | None:
        return seconds(t) if t >= 0 else None

    return {
        "id": fault.id,
        "name": fault.fault,
        "options": list(fault.options),
        "target": fault.target,
        "opened": when(fault.opened),
        "proven": when(fault.proven) if fault.unproven is None else None,
        "healed": when(fault.healed),
        "not_healed": fault.not_healed,
        "recovered": when(fault.recovered),
        "recovery_seconds": fault.recovery_seconds,
        "evidence": fault.evidence,
    }


def _stream_row(digest: Digest, stream: Stream, release: int) -> dict[str, Any]:
    """`backlog`: marks outstanding at the release; `caught_up`: when the last of them had come, None: not all did."""
    position = bisect_right(stream.delivered_at, release)
    first = stream.delivered_at[position] if position < len(stream.delivered_at) else None
    return {
        "stream": stream.name,
        "backlog": outstanding_at(digest, stream, release),
        "first_event": round((first - release) / NS, 3) if first is not None else None,
        "caught_up": _caught_up(digest, stream, release, position),
    }


def _caught_up(digest: Digest, stream: Stream, release: int, position: int) -> float | None:
    writes = digest.writes
    owed = owed_at(digest, stream, release)
    if not owed:
        return 0.0
    for index, t in zip(stream.delivered[position:], stream.delivered_at[position:], strict=True):
        key = writes.key[index]
        if key in owed and writes.seq[index] >= owed[key]:
            del owed[key]
            if not owed:
                return round((t - release) / NS, 3)
    return None
