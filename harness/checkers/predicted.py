"""Prediction beside measurement: was what the settings allow at most reached, and did the consumers give up in time?

The bounds themselves are overlap.py's; here the outcome of a run is read off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.checkers.attempts import Attempts
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.logical_writes import LogicalWrite
from harness.checkers.overlap import Counted, counts_of, rules_of_sends
from harness.measures import EXCEEDED, MAXIMUM, NO_OVERLAP, NS, OVERLAP

NAME = "prediction"
STATEMENT = "Each logical write is executed, sent and copied at most as often as its settings were predicted to allow."

WHAT: Final = ("executions", "sends", "copies")
"""Predicted of one delivery of one record; copies are those at once."""
TOLD: Final = {"copies": "copies at once in the engine"}


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.rows`: predicted and measured, the most of one write; `evidence.outcome`. None without a prediction.

    Where time bounds the sends and no count (timeoutMS), where a rule explains them, and where records were delivered
    again, more than predicted is no contradiction.
    """
    attempts = digest.attempts
    if attempts.predicted is None:
        return None
    predicted = {name: attempts.predicted.get(name) for name in WHAT}
    counted = counts_of(digest)
    at_once = _writes_at_once(attempts)
    doubts = list(_doubts(digest, counted))
    problems = [] if doubts else list(_problems(predicted, counted, digest, context))
    rows = [
        {
            "what": TOLD.get(name, name),
            "predicted": predicted[name],
            "measured": max((_of(one, name) or 0 for one in counted), default=None),
            "reached_by": sum(_reached(one, name, predicted) for one in counted),
        }
        for name in WHAT
    ]
    evidence: dict[str, Any] = {
        "outcome": None if doubts else _outcome(attempts, predicted, counted, at_once),
        "rows": rows,
        "groups_at_once": {
            # What is left of a record that was given up goes on beside the next one's.
            "predicted": None
            if predicted["copies"] is None or len(counted) > at_once
            else predicted["copies"] * at_once,
            "measured": attempts.most_groups,
            "of_writes": at_once,
            "sampled_every": attempts.longest_interval,
        },
        "give_up": {
            "predicted": attempts.predicted.get("give_up"),
            "measured": _longest(one.write for one in counted if one.write.records["dead"]),
        },
        "writes": len(counted),
        "delivered_anew": sum(_delivered_anew(one) for one in counted),
        "documents": None if attempts.effects is None else len(attempts.effects),
        "rules": attempts.predicted.get("rules", []),
        "warnings": attempts.predicted.get("warnings", []),
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _outcome(attempts: Attempts, predicted: dict[str, int | None], counted: Sequence[Counted], at_once: int) -> str:
    """Requests of several executions may wait at once before the engine (a fail point on the command, a stopped
    process) and run one after the other later: on the server they are at once all the same, unless one session orders
    them."""
    if any(one.sends is not None and one.sends > one.allowed for one in counted):
        return EXCEEDED
    copies = predicted["copies"] or 0
    in_engine = max((one.at_once or 0 for one in counted), default=0)
    on_server = 0 if copies == 1 else attempts.most_groups
    if in_engine <= 1 and on_server <= at_once:
        return NO_OVERLAP
    executed = all(_reached(one, name, predicted) for one in counted for name in ("executions", "sends"))
    together = all(_reached(one, "copies", predicted) for one in counted) or on_server >= copies * at_once
    return MAXIMUM if executed and together else OVERLAP


def _writes_at_once(attempts: Attempts) -> int:
    """How many logical writes can be under way at once: each consumer has one."""
    return len({execution.consumer for _write, execution in attempts.executions()})


def _of(one: Counted, name: str) -> int | None:
    return one.at_once if name == "copies" else one.sends if name == "sends" else one.executions


def _reached(one: Counted, name: str, predicted: Mapping[str, int | None]) -> bool:
    """More than predicted is no less: of one delivery it is a problem, of several their sum."""
    most, found = predicted[name], _of(one, name)
    return most is not None and found is not None and found >= most


def _delivered_anew(one: Counted) -> bool:
    """Given to another consumer as well, or to the same again after its commit failed: all executions began anew."""
    return one.write.consumers > 1 or one.write.records["commit failed"] > 0


def _problems(
    predicted: dict[str, int | None], counted: Iterable[Counted], digest: Digest, context: Context
) -> Iterable[str]:
    for one in counted:
        if _delivered_anew(one):
            continue
        for name in WHAT:
            if name == "sends" and rules_of_sends(one.write.executions.values(), digest, context):
                continue
            most, found = predicted[name], _of(one, name)
            if most is not None and found is not None and found > most:
                what = "copies at once" if name == "copies" else name
                yield f"write {one.write.name}: {found} {what}, at most {most} were predicted"


def _longest(writes: Iterable[LogicalWrite]) -> float | None:
    """Seconds from the first execution's begin to the last one's end, the longest of these writes."""
    spans = [
        max(one.ended for one in write.executions.values()) - min(one.begun for one in write.executions.values())
        for write in writes
        if write.executions and all(one.begun >= 0 and one.ended >= 0 for one in write.executions.values())
    ]
    return round(max(spans) / NS, 3) if spans else None


def _doubts(digest: Digest, counted: Sequence[Counted]) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
    if not counted:
        yield "nothing was written"
    if any(one.sends is None for one in counted):
        yield "no source counted the sends"
    if any(one.at_once is None for one in counted):
        yield "no source counted the copies exactly"
    if torn := digest.attempts.torn():
        yield torn
