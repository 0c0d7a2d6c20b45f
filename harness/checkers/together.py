"""How many copies ran at once, from the intervals that the members' logs have of them.

Exact to the millisecond that logs are written in: what only touches is not counted as together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.checkers.logical_writes import Execution, LogicalWrite, Ran


@dataclass(frozen=True, slots=True)
class Interval:
    """Of the execution `whose`, on one member, in seconds."""

    whose: Any
    member: str
    began: float
    ended: float


def most_at_once(intervals: Iterable[Interval]) -> int:
    """The most executions that ran together; one that works on several members counts once for all of them."""
    intervals = list(intervals)
    moments = sorted(
        (time, step, one.whose, one.member) for one in intervals for time, step in ((one.began, 1), (one.ended, -1))
    )
    active: dict[Any, Counter[str]] = {}
    now = most = 0
    for _time, step, whose, member in moments:
        here = active.setdefault(whose, Counter())
        before = max(here.values(), default=0)
        here[member] += step
        now += max(here.values()) - before
        most = max(most, now)
    return max(most, 1 if intervals else 0)


def of_executions(write: LogicalWrite) -> Iterator[Interval]:
    """When each copy of a write ran."""
    for whose, ran, began in _begun(write.executions.values()):
        yield Interval((write.name, whose), ran.member, began, ran.ended)


def _begun(executions: Iterable[Execution]) -> Iterator[tuple[int, Ran, float]]:
    """Of each that was carried out, whose it was and when it could begin at the earliest.

    One session runs one numbered request at a time: what the next one waited for it is in its own time, as the log has
    it, and is taken off.
    """
    free: dict[tuple[str, str | None], float] = {}
    ran = [(one.number, each) for one in executions for each in one.ran if each.inside]
    for number, each in sorted(ran, key=lambda pair: pair[1].ended):
        began = each.began
        if each.transaction[1] is not None:
            session = (each.member, each.transaction[0])
            began = min(max(began, free.get(session, began)), each.ended)
            free[session] = each.ended
        yield number, each, began
