"""How many sends and copies a logical write came to, against what its executions allow; and what explains an excess.

The bounds: sends at most twice the executions (of a bulk, for each of its commands), copies at most the executions, in
all and at once; redeliveries are executions as well. Whether the sources agree is counts.py's question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.checkers.attempts import Attempts
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import PROBLEMS_SHOWN, Finding, judged
from harness.checkers.logical_writes import Execution, LogicalWrite
from harness.checkers.together import most_at_once, of_executions
from harness.checkers.windows import seconds
from harness.drivers.clients import option
from harness.measures import OVERLOADED

NAME = "overlap"
STATEMENT = (
    "No logical write is sent more than twice, or carried out more than once, for each execution of it, "
    "where no known rule says otherwise."
)

ROWS_SHOWN = 100

TIMEOUT: Final = "timeoutMS"

TIMEOUT_RULE: Final = "timeoutMS: the driver resends until the time is over, not once"
OVERLOAD_RULE: Final = "overload labels: the driver resends such an error more than once"
NO_RECORD_RULE: Final = "duplicate key, or nothing changed: that leaves no record, so the resend is carried out again"
SESSION_RULE: Final = "one explicit session: its copies run one after the other, so groups are not copies"


@dataclass(frozen=True, slots=True)
class Counted:
    """What one logical write came to. None where no source told it.

    `allowed` sends; `at_once` copies, from the log; `sampled`: the most copies that one look found; `groups`: distinct
    lsid and txnNumber.
    """

    write: LogicalWrite
    executions: int
    allowed: int
    sends: int | None
    sends_by: str | None
    copies: int | None
    effective: int | None
    at_once: int | None
    sampled: int | None
    groups: int
    sessions: int


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.writes`: a row per logical write, those with the most sends and copies first. None without executions.

    `evidence.totals` and `evidence.most` over all of them; `evidence.bounds` how far each bound was reached.
    """
    attempts = digest.attempts
    if not attempts.begun:
        return None
    counted = [one for one in counts_of(digest) if one.executions]
    excesses = [excess for one in counted for excess in _excesses(one, digest, context)]
    problems = [excess["problem"] for excess in excesses if not excess["rules"]]
    doubts = list(_doubts(digest, counted)) if not problems else []
    counted.sort(key=lambda one: (-(one.sends or 0), -(one.copies or 0), one.write.name))
    evidence: dict[str, Any] = {
        "totals": _totals(counted),
        "most": _most(attempts, counted),
        "bounds": {
            "sends": _bound([(one.sends, one.allowed) for one in counted]),
            "copies": _bound([(one.copies, one.executions) for one in counted]),
            "copies_at_once": _bound([(one.at_once, one.executions) for one in counted]),
        },
        "sources": _sources(attempts, counted),
        "rules": sorted(
            {rule for excess in excesses for rule in excess["rules"]} | set(_rules_of_groups(counted, context))
        ),
        "excesses": excesses[:PROBLEMS_SHOWN],
        "writes": [_row(one) for one in counted[:ROWS_SHOWN]],
        "writes_left_out": max(0, len(counted) - ROWS_SHOWN),
        "alarms": len(attempts.overlap_alarms),
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _totals(counted: Sequence[Counted]) -> dict[str, Any]:
    return {
        "writes": len(counted),
        **{
            name: _sum([getattr(one, name) for one in counted])
            for name in ("executions", "sends", "copies", "effective", "groups")
        },
        "redelivered": sum(one.write.records["redelivered"] for one in counted),
    }


def _most(attempts: Attempts, counted: Sequence[Counted]) -> dict[str, Any]:
    at_once = most_at_once(interval for one in counted for interval in of_executions(one.write))
    return {
        **{
            name: max((getattr(one, name) for one in counted if getattr(one, name) is not None), default=None)
            for name in ("executions", "sends", "copies", "effective", "at_once", "sampled")
        },
        "at_once_of_all_writes": at_once if attempts.logged else None,
    }


def _sources(attempts: Attempts, counted: Sequence[Counted]) -> dict[str, Any]:
    return {
        "sends": sorted({one.sends_by for one in counted if one.sends_by}),
        "copies": "log" if attempts.logged else None,
        "sampled": {
            "samples": attempts.samples,
            "seen_at_once": sum(one.sampled or 0 for one in counted),
            "of_at_once": _sum([one.at_once for one in counted]),
            "longest_interval": attempts.longest_interval,
            "without_an_answer": {
                member: [[seconds(start), None if end is None else seconds(end)] for start, end in spans]
                for member, spans in attempts.blind.items()
                if spans
            },
        },
    }


def counts_of(digest: Digest) -> list[Counted]:
    """Of all writes, in the order in which they were heard of."""
    if digest.counted is None:
        digest.counted = [count(digest.attempts, write) for write in digest.attempts.writes.values()]
    return list(digest.counted)


def count(attempts: Attempts, write: LogicalWrite) -> Counted:
    executions = list(write.executions.values())
    sends, source = _sends(attempts, executions)
    logged = bool(attempts.logged)
    transactions = {send.transaction for one in executions for send in one.sends if send.transaction[1] is not None}
    return Counted(
        write=write,
        executions=len(executions),
        allowed=sum(2 * one.parts for one in executions),
        sends=sends,
        sends_by=source,
        copies=sum(one.copies for one in executions) if logged else None,
        effective=sum(one.effective for one in executions) if logged else None,
        at_once=most_at_once(of_executions(write)) if logged else None,
        sampled=write.sampled,
        groups=len(transactions),
        sessions=len({lsid for lsid, _txn in transactions}),
    )


def _sends(attempts: Attempts, executions: Iterable[Execution]) -> tuple[int | None, str | None]:
    """By the tap where there was one: what reached the wire; else as the driver tells."""
    if attempts.tapped:
        return sum(one.tapped.total for one in executions if one.tapped is not None), "tap"
    if attempts.listened:
        return sum(len(one.sends) for one in executions), "listener"
    return None, None


def _excesses(one: Counted, digest: Digest, context: Context) -> Iterable[dict[str, Any]]:
    """Each with the rules that explain it; none where it is a problem."""
    executions = list(one.write.executions.values())
    checks: tuple[tuple[str, int | None, int, list[str]], ...] = (
        ("sends", one.sends, one.allowed, rules_of_sends(executions, digest, context)),
        ("copies", one.copies, one.executions, _rules_of_copies(executions)),
        ("copies at once", one.at_once, one.executions, []),
    )
    for name, found, allowed, rules in checks:
        if found is not None and found > allowed:
            sentence = f"write {one.write.name}: {found} {name} for {one.executions} executions, at most {allowed}"
            yield {
                "write": one.write.name, "bound": name, "found": found, "allowed": allowed, "rules": rules,
                "problem": sentence,
            }  # fmt: skip


def rules_of_sends(executions: Collection[Execution], digest: Digest, context: Context) -> list[str]:
    """Why these may have been sent more than twice each; empty where they may not."""
    rules = []
    if option(context.driver_options, TIMEOUT) is not None:
        rules.append(TIMEOUT_RULE)
    labels = {label for one in executions for label in one.labels}
    labels |= {label for one in executions for send in one.sends for label in send.labels}
    if OVERLOADED in labels or any(OVERLOADED in each for one in digest.faults.values() for each in one.options):
        rules.append(OVERLOAD_RULE)
    return rules


def _rules_of_copies(executions: Iterable[Execution]) -> list[str]:
    again = (one for one in executions if one.copies > 1)
    in_vain = all(sum(ran.inside and not ran.changed for ran in one.ran) >= one.copies - 1 for one in again)
    return [NO_RECORD_RULE] if in_vain else []


def _rules_of_groups(counted: Iterable[Counted], context: Context) -> Iterable[str]:
    """Only of a session that was asked for: a driver also goes on with its own after any answer, and nothing waits."""
    shared = (one for one in counted if one.groups > 1 and one.sessions == 1 and (one.at_once or 0) < one.groups)
    if context.explicit_session and any(shared):
        yield SESSION_RULE


def _bound(found: Sequence[tuple[int | None, int]]) -> dict[str, Any]:
    """`reached` and `exceeded` are numbers of logical writes; `measured` and `allowed` are sums over all of them."""
    known = [(number, allowed) for number, allowed in found if number is not None]
    return {
        "measured": sum(number for number, _ in known) if known else None,
        "allowed": sum(allowed for _, allowed in found),
        "holds": all(number <= allowed for number, allowed in known) if known else None,
        "reached": sum(number == allowed for number, allowed in known),
        "exceeded": sum(number > allowed for number, allowed in known),
    }


def _sum(numbers: Sequence[int | None]) -> int | None:
    return None if any(one is None for one in numbers) else sum(one for one in numbers if one is not None)


def _row(one: Counted) -> dict[str, Any]:
    executions = one.write.executions.values()
    begun = [each.begun for each in executions if each.begun >= 0]
    ended = [each.ended for each in executions if each.ended >= 0]
    tapped = [each.tapped for each in executions if each.tapped is not None]
    ran = [each for execution in executions for each in execution.ran if each.inside]
    return {
        "write": one.write.name,
        "executions": one.executions,
        "outcomes": [each.outcome for each in executions],
        "sends": one.sends,
        "most_sends_of_an_execution_at_once": max((each.most for each in tapped), default=None),
        "copies": one.copies,
        "copies_at_once": one.at_once,
        "sampled_at_once": one.sampled,
        "sampled_interval": one.write.sampled_interval,
        "effective": one.effective,
        "groups": one.groups,
        "begun": seconds(min(begun)) if begun else None,
        "ended": seconds(max(ended)) if ended else None,
        "sent_over": round(max(each.last for each in tapped) - min(each.first for each in tapped), 3)
        if tapped
        else None,
        "ran_over": round(max(each.ended for each in ran) - min(each.began for each in ran), 3) if ran else None,
        "alarms": len(one.write.alarms),
    }


def _doubts(digest: Digest, counted: Sequence[Counted]) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
    if all(one.sends is None for one in counted):
        yield "no source counted the sends: neither the tap nor the driver's listener"
    if not digest.attempts.logged:
        yield "no source counted the copies exactly: no member's log was read"
    if torn := digest.attempts.torn():
        yield torn
    if digest.attempts.unjoined:
        yield f"{len(digest.attempts.unjoined)} requests in the log belong to no logical write that is known"
