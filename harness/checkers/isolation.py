"""Who waited while a router held an old table and could not refresh it: only operations for the shard that is stale?

And whether this could have been seen at all: the coarse router must fail what the fine one is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.routed import Asked, Op
from harness.measures import ALL_BLOCKED, ISOLATED, MORE_BLOCKED, NONE_WAITED, NS

NAME: Final = "isolation"
STATEMENT: Final = "While a router waits for a refresh, only operations for a stale shard wait."
CONTROL: Final = "control"
CONTROL_STATEMENT: Final = "A coarse router, asked the same, holds back the whole collection: the check has power."


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.outcome` of the fine routers, and a row for each router with its operations. Not valid where a fine one
    held others back; `demanded` where it must not. None where no router was asked."""
    routers = list(digest.routed.routers.values())
    if not routers:
        return None
    fine = [one for one in routers if one.setting == "fine"]
    doubts = list(_doubts(digest, fine))
    outcomes = {outcome_of(one) for one in fine}
    problems = [] if doubts else [problem for one in fine for problem in _problems(one)]
    evidence: dict[str, Any] = {
        "case": routers[0].case,
        "outcome": outcomes.pop() if len(outcomes) == 1 else "mixed",
        "demanded": all(one.expected["outcome"] == ISOLATED for one in fine),
        "within": routers[0].within,
        "routers": [row(one) for one in routers],
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def control(digest: Digest, context: Context) -> Finding | None:
    """Unknown where the coarse router isolates as well, or was not asked. None where the case has no such control."""
    routers = list(digest.routed.routers.values())
    if not any(one.control for one in routers):
        return None
    coarse = [one for one in routers if one.setting == "coarse"]
    doubts = list(_doubts(digest, coarse))
    doubts += [
        f"{one.name}, the coarse router, came to {outcome_of(one)!r}: a check that it passes proves nothing"
        for one in coarse
        if not doubts and outcome_of(one) != ALL_BLOCKED
    ]
    if not coarse:
        doubts.append("no coarse router was asked")
    return judged(CONTROL, CONTROL_STATEMENT, {"outcomes": [outcome_of(one) for one in coarse]}, [], doubts)


def outcome_of(asked: Asked) -> str:
    """By whom the operations that waited are for."""
    waited = {op.belongs for op in asked.judged() if asked.waited(op)}
    if "other collection" in waited:
        return MORE_BLOCKED
    if "other shard" in waited:
        return ALL_BLOCKED
    return ISOLATED if waited else NONE_WAITED


def row(asked: Asked) -> dict[str, Any]:
    """One router, for evidence; seconds are of each operation, null where it was never answered."""
    return {
        "router": asked.name,
        "setting": asked.setting,
        "in_process": asked.in_process,
        "outcome": outcome_of(asked),
        "expected": asked.expected["outcome"],
        "pending": [op.name for op in asked.ops.values() if asked.pending(op)],
        "slowest_spared": max((op.seconds or 0.0 for op in asked.judged() if not asked.waited(op)), default=None),
        "after_release": max(
            ((op.ended - asked.released) / NS for op in asked.judged() if asked.released and asked.pending(op)),
            default=None,
        ),
        "operations": [_operation(asked, op) for op in asked.ops.values()],
    }


def _operation(asked: Asked, op: Op) -> dict[str, Any]:
    return {
        "op": op.name,
        "belongs": op.belongs,
        "waited": asked.waited(op),
        "pending": asked.pending(op),
        "seconds": op.seconds,
        "outcome": op.outcome,
        "code": op.code,
        "error": op.error,
    }


def _problems(asked: Asked) -> Iterable[str]:
    for op in asked.judged():
        if op.belongs not in ("stale shard", "recipient") and asked.waited(op):
            waited = f"{op.seconds:.3f} s" if op.seconds is not None else "without an answer"
            yield f"{asked.name} ({asked.setting}): {op.name} is for the {op.belongs}, and waited {waited}"


def _doubts(digest: Digest, routers: Iterable[Asked]) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
        return
    for asked in routers:
        if asked.released is None:
            yield f"{asked.name}: nobody told when what held its refresh was released"
        elif missing := [name for name in asked.operations if name not in asked.ops]:
            yield f"{asked.name}: {', '.join(missing)} were not sent"
        else:
            yield from (
                f"{asked.name}: {op.name} took {op.seconds:.3f} s and did not wait for the refresh: something else "
                "held it up, the machine perhaps"
                for op in asked.judged()
                if asked.slow(op)
            )
