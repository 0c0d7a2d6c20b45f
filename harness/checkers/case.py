"""Did every operation fare as its case has it, router by router: who waited, which codes came, how often was refreshed?

And was each write applied exactly once if it was acknowledged, and not at all if it was refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.isolation import outcome_of
from harness.checkers.routed import Asked, Op, went
from harness.measures import AS_SHARD

NAME: Final = "case"
STATEMENT: Final = "Each operation waits or not, and ends, and each router refreshes, as the case has it."
APPLIED: Final = "applied"
APPLIED_STATEMENT: Final = "Each acknowledged write is applied exactly once, each refused one not at all."
UNTOLD: Final = ("countStaleConfigErrors", "countIncrementalRefreshesStarted", "countFullRefreshesStarted")
"""Counters that must not move while a router has been told nothing."""


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.routers`: counters, and the codes and log lines that came, for each router; `stale_errors_given` by
    the shards, to all."""
    routers = list(digest.routed.routers.values())
    if not routers:
        return None
    cut_short = incomplete(digest)
    doubts = [cut_short] if cut_short else [doubt for one in routers for doubt in _doubts(one)]
    problems = [] if doubts else [problem for one in routers for problem in _problems(one)]
    evidence = {
        "routers": [_row(one) for one in routers],
        "stale_errors_given": {name: went(readings, AS_SHARD) for name, readings in digest.routed.shards.items()},
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def applied(digest: Digest, context: Context) -> Finding | None:
    """Of an operation whose answer never came both is allowed; a loss or a doubling is a problem whatever else is."""
    routers = list(digest.routed.routers.values())
    if not routers:
        return None
    cut_short = incomplete(digest)
    doubts = [cut_short] if cut_short else []
    problems: list[str] = []
    writes = 0
    for asked in routers:
        if asked.documents is None:
            doubts.append(f"{asked.name}: nobody looked at what is in its collections")
            continue
        for op in asked.ops.values():
            if not op.writes:
                continue
            writes += 1
            times = asked.documents.get(op.name, 0)
            if times not in _allowed(op):
                wanted = " or ".join(map(str, _allowed(op)))
                problems.append(f"{asked.name}: {op.name}, {op.outcome}, was applied {times} times; expected {wanted}")
    return judged(APPLIED, APPLIED_STATEMENT, {"writes": writes}, problems, doubts)


def _allowed(op: Op) -> tuple[int, ...]:
    return {"ok": (1,), "failed": (0,)}.get(op.outcome, (0, 1))


def _problems(asked: Asked) -> Iterable[str]:
    where, expected = f"{asked.name} ({asked.setting})", asked.expected
    if asked.setting == "coarse" and outcome_of(asked) != expected["outcome"]:
        yield f"{where}: expected {expected['outcome']}, observed {outcome_of(asked)}"
    for op in asked.judged():
        wanted = op.name in expected["waiting"]
        if asked.waited(op) != wanted:
            yield f"{where}: {op.name} {'was to wait' if wanted else 'was not to wait'}, {_told(op)}"
    for op in asked.ops.values():
        codes = expected["errors"].get(op.name)
        # What a mongos makes of an error above its shards is not known here, where no mongos was.
        if op.belongs == "probe" and not asked.in_process:
            continue
        if codes is None and op.outcome != "ok":
            yield f"{where}: {op.name} was to end well, {_told(op)}"
        elif codes is not None and op.code not in codes:
            yield f"{where}: {op.name} was to end with {' or '.join(map(str, codes))}, {_told(op)}"
    for counter, (least, most) in expected["counters"].items():
        gone = asked.moved(counter, "stale", "released")
        if gone is not None and not least <= gone <= most:
            between = str(least) if least == most else f"{least} to {most}"
            yield f"{where}: {counter} went up by {gone}; expected {between}"


def _told(op: Op) -> str:
    if op.ended < 0:
        return "and was never answered"
    code = "" if op.outcome == "ok" else f" with {op.code}: {op.error}" if op.code is not None else f": {op.error}"
    return f"and ended {op.outcome} after {op.seconds:.3f} s{code}"


def _doubts(asked: Asked) -> Iterable[str]:
    for when in ("primed", "stale", "released"):
        if asked.readings.get(when) is None:
            yield f"{asked.name}: its counters were not read when it was {when}"
            return
    if asked.untold:
        for counter in UNTOLD:
            if gone := asked.moved(counter, "primed", "stale"):
                yield f"{asked.name}: {counter} went up by {gone} before anything was sent: it was not stale any more"


def _row(asked: Asked) -> dict[str, Any]:
    counters = {
        counter: asked.moved(counter, "stale", "released")
        for counter in sorted(asked.readings.get("released") or {})
        if not counter.startswith("numActive")
    }
    return {
        "router": asked.name,
        "setting": asked.setting,
        "counters": counters,
        "codes": {op.name: op.code for op in asked.ops.values() if op.code is not None},
        "log": [
            {"id": event["id"], "logged": event["logged"], "code": event["code"], "text": event["text"]}
            for event in asked.logged
        ],
    }
