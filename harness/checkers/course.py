"""Did the run go its whole way: all phases, the fault it was asked for, held as long as it was meant to be.

Where it did not, nothing that is missing from its record proves anything; other checkers ask here first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import at, windows
from harness.history import COMPLETED, INTERRUPTED, RUN_FAILED

NAME = "course"
STATEMENT = "The run went through all its phases, with the fault it was asked for, for as long as it was meant to."

HOLD_STRETCH = 1.25
HOLD_SLACK = 3.0
"""Seconds; a hold longer than this much more than the intended one was watched by a process that did not run."""
HOLD_TOLERANCE = 0.9
"""A hold of less than this share of the intended one is another run than the one asked for."""


def examine(digest: Digest, context: Context) -> Finding:
    doubts = list(_doubts(digest, context))
    evidence = {
        "phases": [{"phase": name, "at": round(t / 1e9, 3)} for t, name in digest.phases],
        "ended": _ended(digest, "reason"),
        "interrupted": interrupted(digest),
        "expected": sorted(context.expected),
        "doubts": doubts,
    }
    return Finding(NAME, "unknown" if doubts else True, STATEMENT, evidence)


def interrupted(digest: Digest) -> bool:
    """Ctrl-C and the like, as the run itself recorded it."""
    return bool(_ended(digest, "reason") == INTERRUPTED)


def incomplete(digest: Digest) -> str | None:
    """Why the run cannot be judged to its end; None: it can. A run that reached its check phase is complete."""
    reason = _ended(digest, "reason")
    if reason is not None and reason != COMPLETED:
        detail = _ended(digest, "detail")
        ended = {INTERRUPTED: "was interrupted", RUN_FAILED: "failed"}.get(reason, f"ended as {reason!r}")
        return f"the run {ended} after {at(digest.end)}" + (f": {detail}" if detail else "")
    if reason is None and digest.phase("check") is None:
        last = f"in phase {digest.phases[-1][1]}" if digest.phases else "before the first phase"
        return f"the record ends at {at(digest.end)} {last}, without run.ended"
    return None


def _ended(digest: Digest, field: str) -> Any:
    """A field of `run.ended`; None without one."""
    return digest.ended.get(field) if digest.ended is not None else None


def _doubts(digest: Digest, context: Context) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
        return
    if digest.started is None:
        yield "the record has no run.started"
    if not context.without_fault and not digest.faults:
        yield f"fault {context.fault} was asked for and never opened"
    if context.asks_what_is_left and not digest.faults:
        yield "no fault of the schedule could be injected"
    for window in windows(digest, context):
        if context.hold is not None and window.seconds < context.hold * HOLD_TOLERANCE:
            yield f"the hold lasted {window.seconds:.1f} s instead of {context.hold:.1f} s"
        if context.hold is not None and window.seconds > context.hold * HOLD_STRETCH + HOLD_SLACK:
            yield f"the hold lasted {window.seconds:.1f} s instead of {context.hold:.1f} s: this process stood still"
