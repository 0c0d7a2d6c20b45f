"""What one run came to, in the figures that questions ask for: from its result and its history. Pure.

Sends are the tap's, copies and times the members' logs', both exact; what a sampler gave is called sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness.checkers import counts, effects, overlap
from harness.history import Event
from harness.measures import NS


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over all logical writes, but for `at_once`: the most copies at once, of all writes together.

    `unknown`: why nothing can be said. `sends_each`: of each execution, sorted. `gaps`: seconds from one send of an
    execution to the next. `numbered`: sends with a txnNumber. `known`: sends whose lsid and txnNumber a member's log
    has. `errors`: of executions, by code or, without one, by class. `failed`, `retried`: commands that failed, and that
    were answered from their session's record, by the counters. Sampled: `waiting`, the most ops that one look found to
    wait for each thing, and `sampled`, the most copies of one write.
    """

    unknown: str | None = None
    driver: str | None = None
    record: str | None = None
    executions: int = 0
    sends: int | None = None
    sends_each: tuple[int, ...] = ()
    copies: int | None = None
    effective: int | None = None
    groups: int = 0
    at_once: int | None = None
    sampled: int | None = None
    documents: int | None = None
    qty: int | None = None
    lost_unacknowledged: int = 0
    overtaken: int = 0
    failed: int = 0
    retried: int = 0
    numbered: int = 0
    known: int = 0
    gaps: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


def measured(document: Mapping[str, Any], events: Iterable[Event]) -> Measured:
    """`document` is the run's `result.json`, `events` its history."""
    found = {one["name"]: one["evidence"] for one in document["findings"]}
    unknown, record = _unknown(document), document["record"]
    driver = " ".join(str(document["driver"].get(name)) for name in ("name", "version"))
    if overlap.NAME not in found:
        return Measured(unknown or "it counted nothing", driver, record)
    totals, most = found[overlap.NAME]["totals"], found[overlap.NAME]["most"]
    left = found.get(effects.NAME, {})
    carried_out = [
        one["figures"] for one in found.get(counts.NAME, {}).get("checks", ()) if one["term"] == counts.CARRIED_OUT
    ]
    return Measured(
        unknown,
        driver,
        record,
        executions=totals["executions"],
        sends=totals["sends"],
        copies=totals["copies"],
        effective=totals["effective"],
        groups=totals["groups"],
        at_once=most["at_once_of_all_writes"],
        sampled=most["sampled"],
        documents=left.get("documents"),
        qty=_qty(left.get("writes", ())),
        lost_unacknowledged=left.get("lost_unacknowledged", 0),
        overtaken=left.get("overtaken", 0),
        failed=sum(one["failed"] for one in carried_out),
        retried=sum(one["retried"] for one in carried_out),
        rules=tuple(found[overlap.NAME]["rules"]),
        **_of_events(events),
    )


def _unknown(document: Mapping[str, Any]) -> str | None:
    if document["verdict"] != "unknown":
        return None
    return "; ".join(str(one) for one in document["reasons"]) or "its verdict is unknown"


def _qty(writes: Iterable[Mapping[str, Any]]) -> int | None:
    sums = [one["held"]["qty"] for one in writes if one["held"]["qty"] is not None]
    return sum(sums) if sums else None


def _of_events(events: Iterable[Event]) -> dict[str, Any]:
    sent: dict[tuple[str, int], list[int]] = {}
    transactions: list[tuple[str, int]] = []
    logged: set[tuple[str, int]] = set()
    tapped: Counter[tuple[str, int]] = Counter()
    errors: Counter[str] = Counter()
    waiting: dict[str, int] = {}
    seconds: list[float] = []
    for event in events:
        if event.kind == "send":
            sent.setdefault((event["write"], event["execution"]), []).append(event.t)
            if event["txn"] is not None:
                transactions.append((event["lsid"], event["txn"]))
        elif event.kind == "tap":
            tapped[event["write"], event["execution"]] += event["total"]
        elif event.kind == "op.logged" and event["txn"] is not None:
            logged.add((event["lsid"], event["txn"]))
        elif event.kind == "execution.ended":
            seconds.append(event["seconds"])
            if event["error"] is not None:
                errors[str(event["code"] or event["error"].partition(":")[0])] += 1
        elif event.kind == "copies":
            for what, number in event["waiting"].items():
                waiting[what] = max(waiting.get(what, 0), number)
    return {
        "sends_each": tuple(sorted(tapped.values())),
        "gaps": tuple(round((after - before) / NS, 3) for times in sent.values() for before, after in pairwise(times)),
        "numbered": len(transactions),
        "known": sum(one in logged for one in transactions),
        "errors": dict(errors),
        "waiting": waiting,
        "seconds": tuple(seconds),
    }
