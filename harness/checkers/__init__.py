"""Pure functions from a history to findings, one guarantee a file; no I/O, no cluster, so any record can be rechecked.

The entry of each is `examine(digest, context)`: what `fold` made of the history, and the measure to judge it by.
`run_checkers` is all of them, used at the end of a run and on a stored record alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harness.checkers import (
    alarms,
    case,
    counts,
    course,
    cut,
    delivery,
    durability,
    effects,
    health,
    isolation,
    overlap,
    predicted,
    records,
    recovery,
    release,
    share,
    stall,
    timeouts,
    traffic,
)
from harness.checkers.context import Context
from harness.checkers.digest import Digest, fold
from harness.checkers.finding import Finding
from harness.history import Event

__all__ = ["Context", "Digest", "Finding", "examine_all", "fold", "run_checkers"]

EXAMINERS = (
    course.examine,
    traffic.examine,
    recovery.examine,
    stall.examine,
    share.examine,
    alarms.examine,
    health.examine,
    release.examine,
    timeouts.examine,
    delivery.examine,
    durability.examine,
)
OF_WHAT_IS_LEFT = (
    course.examine,
    traffic.examine,
    recovery.examine,
    stall.examine,
    delivery.examine,
    durability.examine,
)
"""Where only the end counts; how the streams fared meanwhile is told, and asked of nobody."""
OF_COPIES = (
    course.examine,
    recovery.examine,
    predicted.examine,
    overlap.examine,
    cut.examine,
    counts.examine,
    effects.examine,
    records.examine,
)
"""Where logical writes are executed, sent and copied, and no stream is looked at."""

OF_ROUTING = (
    course.examine,
    recovery.examine,
    isolation.examine,
    isolation.control,
    case.examine,
    case.applied,
)
"""Where operations are sent through routers that refresh."""


def run_checkers(events: Iterable[Event], context: Context | None = None) -> list[Finding]:
    """Every finding there is for this history, read once. Without a context, the one its `run.started` records."""
    digest = fold(events)
    return examine_all(digest, context or Context.of(digest.started or {}))


def examine_all(digest: Digest, context: Context) -> list[Finding]:
    """What each checker has to say of a folded history; one that does not apply to it says nothing."""
    found = (examine(digest, context) for examine in _examiners(digest, context))
    return [finding for finding in found if finding is not None]


def _examiners(digest: Digest, context: Context) -> Sequence[Callable[[Digest, Context], Finding | None]]:
    if digest.attempts.predicted is not None or digest.attempts.begun:
        return OF_COPIES
    if digest.routed.routers:
        return OF_ROUTING
    return OF_WHAT_IS_LEFT if context.asks_what_is_left else EXAMINERS
