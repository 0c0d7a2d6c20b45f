"""What the collection holds at the end, against what the copies that took effect should have left.

Documents, sums, who wrote last; writes on many documents that were done in part; writes without acknowledgement that
were lost. What each kind of write leaves is the kind's own knowledge (`drivers/kinds.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.logical_writes import Execution, LogicalWrite
from harness.drivers.kinds import KINDS, MANY, QTY, Kind, Left

NAME = "effects"
STATEMENT = "The collection holds what the copies that took effect leave: the documents, their sums, the last writer."

ROWS_SHOWN = 100

LOG_GRAIN: Final = 0.001
"""Seconds: the log's times are cut to it."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An execution that changed something, as often as it did; when, in seconds of the members' clocks."""

    execution: Execution
    changed: int
    times: int
    began: float
    ended: float


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.writes`: rows of what is not simply as expected. None where nobody looked at what is left."""
    attempts = digest.attempts
    if attempts.effects is None or not attempts.begun:
        return None
    kind = KINDS.get(context.write or "")
    doubts = list(_doubts(digest, kind))
    documents = attempts.documents()
    strangers = sorted(str(name) for name in documents if name not in attempts.writes)
    rows = (
        [_row(kind, write, documents[write.name], attempts.elections) for write in attempts.writes.values()]
        if kind
        else []
    )
    problems = [f"documents of {name}, which nobody wrote" for name in strangers]
    if not doubts:
        problems += [problem for row in rows for problem in row["problems"]]
    evidence: dict[str, Any] = {
        "kind": context.write,
        "documents": sum(kind.held(found).documents for found in documents.values()) if kind else len(attempts.effects),
        **{
            name: sum(len(row[name]) for row in rows)
            for name in ("doubled", "overtaken", "partial", "rolled_back", "lost_unacknowledged")
        },
        "effective": sum(row["effective"] for row in rows),
        "writes": [row for row in rows if _telling(row)][:ROWS_SHOWN],
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _doubts(digest: Digest, kind: Kind | None) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
    if kind is None:
        yield "the record does not say of which kind its writes are"
    if not digest.attempts.logged:
        yield "no member's log was read: which copies took effect is not known"
    if torn := digest.attempts.torn():
        yield torn


def _row(kind: Kind, write: LogicalWrite, documents: Sequence[Mapping[str, Any]], elections: int) -> dict[str, Any]:
    effects = _effects(write)
    held = kind.held(documents)
    wanted, rolled_back = _wanted(kind, write, effects, held, failed_over=bool(elections) or _failed_over(write))
    kept = [
        one.execution.number for one in effects for _ in range(one.times) if one.execution.number not in rolled_back
    ]
    named = [one.execution.number for one in effects for _ in range(one.times)]
    problems = []
    if wanted is not None:
        problems.append(f"write {write.name}: expected {_told(wanted)} of executions {named}, found {_told(held)}")
    problems += [
        f"write {write.name} execution {number}: acknowledged, and nothing is left of it"
        for number in rolled_back
        if write.executions[number].outcome == "ok"
    ]
    latest = max(named, default=None)
    return {
        "write": write.name,
        "executions": len(write.executions),
        "effective": len(named),
        "held": asdict(held) | {"executions": list(held.executions)},
        "doubled": kept[1:] if not kind.idempotent else [],
        "overtaken": [held.last] if held.last is not None and latest is not None and held.last < latest else [],
        "partial": _partial(kind, write, effects, held),
        "done": _done(kind, documents),
        "rolled_back": rolled_back,
        "lost_unacknowledged": [
            one.number
            for one in write.executions.values()
            if one.outcome == "ok" and not one.acknowledged and not one.copies
        ],
        "problems": problems,
    }


def _telling(row: Mapping[str, Any]) -> bool:
    names = ("doubled", "overtaken", "partial", "rolled_back", "lost_unacknowledged", "problems")
    return any(row[name] for name in names)


def _effects(write: LogicalWrite) -> list[Effect]:
    """In the order in which they ended."""
    found = []
    for execution in write.executions.values():
        changing = [one for one in execution.ran if one.changed > 0]
        if changing:
            began, ended = min(one.began for one in changing), max(one.ended for one in changing)
            changed = sum(one.changed for one in changing)
            found.append(Effect(execution, changed, execution.effective, began, ended))
    return sorted(found, key=lambda one: one.ended)


def _wanted(
    kind: Kind, write: LogicalWrite, effects: Sequence[Effect], held: Left, *, failed_over: bool
) -> tuple[Left | None, list[int]]:
    """What there should be where it is not what there is (None: it is); and the executions that a failover undid."""
    if kind.prepared:
        return _wanted_of_many(kind, write, effects, held), []
    orders = list(_orders(effects))
    if any(kind.expected(order) == held for order in orders):
        return None, []
    if failed_over:
        # What an old primary did and nobody else had got is gone, whatever its log says.
        for undone in _undone(effects, held):
            kept = [one for one in effects if one.execution.number not in undone]
            if any(kind.expected(order) == held for order in _orders(kept)):
                return None, sorted(undone)
    return kind.expected(orders[0]), []


def _wanted_of_many(kind: Kind, write: LogicalWrite, effects: Sequence[Effect], held: Left) -> Left | None:
    """By what the log has of each. How far one had come that was interrupted it does not say: up to all of them."""
    changed = sum(one.changed for one in effects)
    at_most = changed + MANY * len(_interrupted(write))
    if held.qty is None:
        least = max(0, kind.prepared - at_most)
        return None if least <= held.documents <= kind.prepared - changed else Left(kind.prepared - changed)
    if held.documents == kind.prepared and changed <= held.qty / QTY <= at_most:
        return None
    return Left(kind.prepared, QTY * changed, held.executions, held.last)


def _interrupted(write: LogicalWrite) -> list[int]:
    """Executions that failed inside the engine, once for each such part."""
    return [each.number for each in write.executions.values() for ran in each.ran if ran.inside and not ran.executed]


def _orders(effects: Sequence[Effect]) -> Iterable[list[int]]:
    """The orders in which they can have taken effect, as far as it matters who was last: as they ended, or with any
    other last that still ran when all had begun."""

    def numbers(ordered: Iterable[Effect]) -> list[int]:
        return [one.execution.number for one in ordered for _ in range(one.times)]

    yield numbers(effects)
    all_begun = max((one.began for one in effects), default=0.0)
    for last in effects[:-1]:
        if last.ended + LOG_GRAIN >= all_begun:
            yield numbers([*(one for one in effects if one is not last), last])


def _failed_over(write: LogicalWrite) -> bool:
    """Whether its executions were carried out by different members, each time by others."""
    members = {frozenset(one.member for one in each.ran if one.inside) for each in write.executions.values()}
    return len(members - {frozenset()}) > 1


def _undone(effects: Sequence[Effect], held: Left) -> Iterable[frozenset[int]]:
    """Which may have been: those of which nothing is named; else all that one member did."""
    named = set(held.executions)
    yield frozenset(one.execution.number for one in effects if one.execution.number not in named)
    for member in sorted({ran.member for one in effects for ran in one.execution.ran}):
        yield frozenset(
            one.execution.number for one in effects if all(ran.member == member for ran in one.execution.ran)
        )


def _done(kind: Kind, documents: Sequence[Mapping[str, Any]]) -> str | None:
    """How many of the documents of a write on many were reached, in words; None for other writes."""
    if not kind.prepared:
        return None
    if kind.expected(()).qty is None:
        return f"{kind.prepared - len(documents)} of {kind.prepared} documents deleted"
    named = Counter(one for document in documents for one in document["executions"])
    reached = ", ".join(f"{named[one]} of {kind.prepared} by execution {one}" for one in sorted(named))
    return f"updated {reached}" if reached else "nothing updated"


def _partial(kind: Kind, write: LogicalWrite, effects: Sequence[Effect], held: Left) -> list[int]:
    """Executions that changed some of their documents and not the others."""
    if not kind.prepared:
        return []
    if held.qty is None:
        did = {one.execution.number for one in effects} | set(_interrupted(write))
        return sorted(did) if 0 < held.documents < kind.prepared else []
    return sorted(number for number, documents in Counter(held.executions).items() if documents % MANY)


def _told(left: Left) -> str:
    parts = [f"{left.documents} documents"]
    if left.qty is not None:
        parts.append(f"a sum of {left.qty}")
    if left.executions:
        parts.append(f"of executions {list(left.executions)}")
    if left.last is not None:
        parts.append(f"the last {left.last}")
    return ", ".join(parts)
