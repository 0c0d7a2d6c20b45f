"""Pure functions from a history to findings, one guarantee a file; no I/O, no cluster, so any record can be rechecked.

`run_checkers` is all of them, used at the end of a run and on a stored record alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.checkers import alarms, course, delivery, recovery, stall, timeouts, traffic
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.finding import Finding
from harness.history import Event

__all__ = ["Context", "Finding", "run_checkers"]

EXAMINERS = (
    course.examine,
    traffic.examine,
    recovery.examine,
    stall.examine,
    alarms.examine,
    timeouts.examine,
    delivery.examine,
)


def run_checkers(events: Iterable[Event], context: Context | None = None) -> list[Finding]:
    """Every finding there is for this history, read once. Without a context, the one its `run.started` records."""
    digest = fold(events)
    context = context or Context.of(digest.started or {})
    found = (examine(digest, context) for examine in EXAMINERS)
    return [finding for finding in found if finding is not None]
