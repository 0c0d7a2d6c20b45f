"""Did the run go its whole way: all phases, the fault it was asked for, held as long as it was meant to be.

Where it did not, nothing that is missing from its record proves anything; other checkers ask here first.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.checkers.context import Context
from harness.checkers.digest import Digest, fold
from harness.checkers.finding import Finding
from harness.checkers.windows import at, windows
from harness.history import COMPLETED, INTERRUPTED, Event

NAME = "course"
STATEMENT = "The run went through all its phases, with the fault it was asked for, for as long as it was meant to."

HOLD_TOLERANCE = 0.9
"""A hold of less than this share of the intended one is another run than the one asked for."""


def check(events: Iterable[Event], context: Context | None = None) -> Finding:
    digest = fold(events)
    return examine(digest, context or Context.of(digest.started or {}))


def examine(digest: Digest, context: Context) -> Finding:
    problems = list(_problems(digest, context))
    evidence = {
        "phases": [{"phase": name, "at": round(t / 1e9, 3)} for t, name in digest.phases],
        "ended": (digest.ended or {}).get("reason"),
        "interrupted": interrupted(digest),
        "expected": sorted(context.expected),
        "problems": problems,
    }
    return Finding(NAME, "unknown" if problems else True, STATEMENT, evidence)


def interrupted(digest: Digest) -> bool:
    """Ctrl-C and the like, as the run itself recorded it."""
    return (digest.ended or {}).get("reason") == INTERRUPTED


def incomplete(digest: Digest) -> str | None:
    """Why the run cannot be judged to its end; None: it can. A run that reached its check phase is complete."""
    reason = (digest.ended or {}).get("reason")
    if reason is not None and reason != COMPLETED:
        detail = (digest.ended or {}).get("detail")
        return f"the run was {reason} after {at(digest.end)}" + (f": {detail}" if detail else "")
    if reason is None and digest.phase("check") is None:
        last = f"in phase {digest.phases[-1][1]}" if digest.phases else "before the first phase"
        return f"the record ends at {at(digest.end)} {last}, without run.ended"
    return None


def _problems(digest: Digest, context: Context) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
        return
    if digest.started is None:
        yield "the record has no run.started"
    if not context.without_fault and not digest.faults:
        yield f"fault {context.fault} was asked for and never opened"
    for window in windows(digest, context):
        if context.hold is not None and window.seconds < context.hold * HOLD_TOLERANCE:
            yield f"the hold lasted {window.seconds:.1f} s instead of {context.hold:.1f} s"
