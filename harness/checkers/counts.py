"""Do the sources that count agree: driver, tap, server counters, log, sampler? Each term between them has a name.

tap + the server's own = counters + rejected by fail points + never read + in flight; counters - failed - answered from
a session's record = carried out. What a sampler saw is never more than what the log has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from harness.checkers.attempts import Attempts, started_anew
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import PROBLEMS_SHOWN, Finding, judged
from harness.checkers.together import Interval, most_at_once

NAME = "counts"
STATEMENT = "All sources that count the sends and copies agree, but for terms that are named and accounted for."


PROCESS: Final = frozenset({"pid", "started"})
"""Of a reading: what tells one process from the next, and counts nothing."""

WIRE: Final = "on the wire"
READ: Final = "read by the server"
REJECTED: Final = "rejected by fail points"
CARRIED_OUT: Final = "carried out"
ACKNOWLEDGED: Final = "acknowledged"
SAMPLED: Final = "sampled"
"""The terms: which two sources are compared, and so where a request or copy was lost sight of."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison. `figures` are the parts of it by name; `problem` says why they do not agree, None: they do."""

    term: str
    where: str
    figures: Mapping[str, int]
    problem: str | None


def examine(digest: Digest, _context: Context) -> Finding | None:
    """`evidence.checks`: the comparisons, of members all, of executions those that do not agree; `through_a_router`:
    what the tap read before one, by link; `at_the_tap`: how much of all was the load's, and how much what prepares a
    run and proves a fault; `killed`: writes that a release killed, by member. None without executions; unknown where
    there were not two sources to compare.
    """
    attempts = digest.attempts
    if not attempts.begun:
        return None
    doubts: list[str] = []
    members = [check for name in sorted(attempts.counters) for check in _of_member(attempts, name, doubts)]
    executions = [*_wire(attempts), *_acknowledged(attempts), *_sampled(attempts)]
    checks = [*members, *executions]
    problems = [check.problem for check in checks if check.problem is not None]
    reason = incomplete(digest)
    if reason is not None:
        doubts.insert(0, reason)
    if (torn := attempts.torn()) and not doubts:
        doubts.append(torn)
    if not checks:
        doubts.append("there were no two sources to compare")
    evidence: dict[str, Any] = {
        "checks": [asdict(one) for one in [*members, *(one for one in executions if one.problem)][:PROBLEMS_SHOWN]],
        "compared": {
            term: sum(check.term == term for check in checks)
            for term in (WIRE, READ, REJECTED, CARRIED_OUT, ACKNOWLEDGED, SAMPLED)
        },
        "through_a_router": {
            link: sum(counts["total"] for (name, _), counts in attempts.tap_commands.items() if name == link)
            for link in sorted({link for link, _command in attempts.tap_commands} - set(attempts.counters))
        },
    }
    if attempts.tapped:
        load = sum(execution.tapped.total for _write, execution in attempts.executions() if execution.tapped)
        total = sum(counts["total"] for counts in attempts.tap_commands.values())
        evidence["at_the_tap"] = {"writes": load, "others": total - load}
    evidence["killed"] = dict(attempts.killed)
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _wire(attempts: Attempts) -> Iterable[Check]:
    """What the driver says it wrote, and what the tap read."""
    if not (attempts.listened and attempts.tapped):
        return
    for write, execution in attempts.executions():
        wrote = len(execution.sends)
        read = execution.tapped.total if execution.tapped is not None else 0
        where = f"write {write.name} execution {execution.number}"
        problem = None
        if wrote > read:
            problem = f"{where}: the driver wrote {wrote}, the tap read {read}: {wrote - read} not {WIRE}"
        elif read > wrote:
            problem = f"{where}: the tap read {read}, the driver wrote {wrote}: {read - wrote} sent by another"
        yield Check(WIRE, where, {"driver": wrote, "tap": read}, problem)


def _of_member(attempts: Attempts, name: str, doubts: list[str]) -> Iterable[Check]:
    moved = _moved(attempts.counters[name])
    if isinstance(moved, str):
        doubts.append(f"{name}: {moved}")
        return
    total = _sum(moved, "metrics.commands.", ".total")
    entered = _sum(moved, "failpoint.", ".timesEntered")
    log = {what: sum(counts.values()) for what, counts in attempts.log_counts.get(name, {}).items()}
    if log:
        yield _rejected(name, log["requests"], total, entered, log["refused"])
        yield _carried_out(name, log["executed"], log["outside"], total, moved)
    links = [counts for (link, _command), counts in attempts.tap_commands.items() if link == name]
    if links:
        tap = {what: sum(one[what] for one in links) for what in ("total", "now", "unanswered")}
        yield _read(name, tap, log, total, entered)


def _rejected(name: str, requests: int, total: int, entered: int, refused: int) -> Check:
    """The log has every request that was read, the counters none that a fail point rejected, and of those that a member
    refused because it was no primary only some (measured on 6.0.5)."""
    rejected = requests - total
    problem = None
    if not 0 <= rejected <= entered + refused:
        problem = (
            f"{name}: the log has {requests} requests, the counters {total}; fail points entered {entered} times, "
            f"{refused} refused as no primary"
        )
    figures = {"log": requests, "counters": total, "rejected": rejected, "entered": entered, "refused": refused}
    return Check(REJECTED, name, figures, problem)


def _carried_out(name: str, executed: int, outside: int, total: int, moved: Mapping[str, int]) -> Check:
    """What was answered outside of the engine, without an error and without a number, may have been counted as well:
    an insert all of whose documents are refused is (measured on 6.0.5)."""
    failed = _sum(moved, "metrics.commands.", ".failed")
    retried = moved.get("transactions.retriedCommandsCount", 0)
    expected = total - failed - retried
    problem = None
    if not 0 <= expected - executed <= outside:
        problem = (
            f"{name}: the log has {executed} carried out, the counters {expected} "
            f"({total} - {failed} failed - {retried} answered from their session's record)"
        )
    figures = {"log": executed, "counters": total, "failed": failed, "retried": retried, "outside": outside}
    return Check(CARRIED_OUT, name, figures, problem)


def _read(name: str, tap: Mapping[str, int], log: Mapping[str, int], total: int, entered: int) -> Check:
    """What the tap passed on is in the counters, was rejected, is in flight still, or was never read."""
    internal = log.get("internal", 0)
    rest = tap["total"] + internal - total - tap["now"]
    # Without the log nobody knows how many of those that entered were rejected.
    rejected = log["requests"] - total if log else min(max(rest, 0), entered)
    never_read = rest - rejected
    problem = None
    if not 0 <= never_read <= tap["unanswered"]:
        problem = (
            f"{name}: the tap read {tap['total']}, the server counted {total - internal} of clients, {rejected} were "
            f"rejected, {tap['now']} are in flight: {never_read} {'never read' if never_read > 0 else 'too many'}, "
            f"and {tap['unanswered']} lost their connection"
        )
    figures = {
        "tap": tap["total"], "internal": internal, "counters": total, "rejected": rejected, "in flight": tap["now"],
        "never read": never_read, "unanswered": tap["unanswered"],
    }  # fmt: skip
    return Check(READ, name, figures, problem)


def _moved(readings: Mapping[str, Mapping[str, int] | None]) -> dict[str, int] | str:
    """How far each counter went between the first reading and the last, or why nobody knows."""
    before, after = readings.get("before"), readings.get("end", readings.get("released"))
    if before is None or after is None:
        return "its counters were not read before and after"
    if started_anew(readings):
        return "it was started anew meanwhile, and its counters with it"
    return {key: value - before[key] for key, value in after.items() if key in before and key not in PROCESS}


def _sum(moved: Mapping[str, int], begins: str, ends: str) -> int:
    return sum(value for key, value in moved.items() if key.startswith(begins) and key.endswith(ends))


def _acknowledged(attempts: Attempts) -> Iterable[Check]:
    """What the driver was told was done, is in a log as carried out, where the logs have everything."""
    if not attempts.logged or attempts.torn():
        return
    for write, execution in attempts.executions():
        if execution.outcome != "ok" or not execution.acknowledged:
            continue
        where = f"write {write.name} execution {execution.number}"
        problem = None if execution.copies else f"{where}: acknowledged, and in no member's log carried out"
        yield Check(ACKNOWLEDGED, where, {"copies": execution.copies}, problem)


def _sampled(attempts: Attempts) -> Iterable[Check]:
    """A sampler sees at most what was there, those included that failed later. What ended with its process left no
    line in the log."""
    whole = {name for name in attempts.logged if not isinstance(_moved(attempts.counters.get(name, {})), str)}
    for write in attempts.writes.values():
        if write.sampled is None or write.sampled_on not in whole:
            continue
        exact = most_at_once(
            Interval(execution.number, ran.member, ran.began, ran.ended)
            for execution in write.executions.values()
            for ran in execution.ran
        )
        problem = None
        if write.sampled > exact:
            problem = f"write {write.name}: {write.sampled} copies seen at once, {exact} in the log"
        yield Check(SAMPLED, f"write {write.name}", {"sampled": write.sampled, "log": exact}, problem)
