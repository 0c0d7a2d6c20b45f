"""Did the member that a fault struck look healthy to everybody but its readers, all the while?

hello as our canary had it, heartbeats as its peers had them, monitors as those had them whose lookups waited. Which
faults are to leave a member healthy, the record says; of the others it is shown as it was.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

from harness.checkers import stall
from harness.checkers.columns import Answers, Fault, Looks
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import Window, at, windows
from harness.measures import NS

NAME = "health"
STATEMENT = "While a fault is held its target answers hello, and heartbeats and monitors of others find it healthy."

HICCUP = 3.0
"""Seconds that a hello may stay away on a busy machine; for longer, the member does not answer."""


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.targets`: a row per fault (see `_row`). None in a run without a fault.

    `evidence.demanded`: whether every fault is one that spares its target's health; only then is it a guarantee.
    """
    held = windows(digest, context)
    faults = [fault for fault in digest.faults.values() if fault.spares_health is not None]
    if not held or not faults:
        return None
    waiting = {row["getmore"]["member"] for row in stall.examine(digest, context).evidence["streams"] if row["getmore"]}
    rows = [_row(digest, fault, held[-1], waiting) for fault in faults]
    demanded = all(fault.spares_health for fault in faults)
    problems = [problem for row in rows for problem in row["problems"]]
    doubts = [doubt for row in rows for doubt in _doubts(row)]
    evidence: dict[str, Any] = {"demanded": demanded, "targets": rows, "problems": problems, "doubts": doubts}
    return Finding(NAME, False if problems else "unknown" if doubts else True, STATEMENT, evidence)


def _row(digest: Digest, fault: Fault, window: Window, waiting: set[str]) -> dict[str, Any]:
    """Counts of looks within the hold; `probes` those of the canary, by kind, as (answered, asked)."""
    target = str(fault.target)
    probes = {probe: one for (member, probe), one in digest.probes.items() if member == target}
    hello = probes.get("hello", Answers())
    looks = {source: _looks(digest, target, source, window) for source in ("heartbeats", "monitor")}
    if waiting & looks["monitor"].keys():
        looks["monitor"] = {name: one for name, one in looks["monitor"].items() if name in waiting}
    row: dict[str, Any] = {
        "target": target,
        "healthy": True,
        "hello": _counts([hello], window),
        **{source: {"by": sorted(found), **_counts(list(found.values()), window)} for source, found in looks.items()},
        "probes": {probe: _counts([one], window) for probe, one in sorted(probes.items())},
        "problems": [],
    }
    row["problems"] = list(_problems(target, hello, looks, window))
    row["healthy"] = not row["problems"]
    return row


def _looks(digest: Digest, target: str, source: str, window: Window) -> Looks:
    """By looking member, those who looked at the target in the hold."""
    found = {by: one for (by, seen, how), one in digest.peers.items() if (seen, how) == (target, source)}
    return {by: one for by, one in found.items() if _counts([one], window)["looks"]}


def _counts(columns: Iterable[Answers], window: Window) -> dict[str, int]:
    spans = [(one, bisect_left(one.at, window.active), bisect_right(one.at, window.release)) for one in columns]
    return {
        "looks": sum(end - start for _, start, end in spans),
        "healthy": sum(sum(one.good[start:end]) for one, start, end in spans),
    }


def _problems(target: str, hello: Answers, looks: dict[str, Looks], window: Window) -> Iterable[str]:
    away = hello.longest_away(window.active, window.release) / NS
    if away > HICCUP:
        yield f"{target} did not answer hello for {away:.1f} s of the hold"
    for source, found in looks.items():
        for by, one in sorted(found.items()):
            start, end = bisect_left(one.at, window.active), bisect_right(one.at, window.release)
            bad = [t for t, good in zip(one.at[start:end], one.good[start:end], strict=True) if not good]
            if bad:
                times = f"in {len(bad)} of {end - start} looks"
                yield f"{target} failing by the {source} of {by} from {at(bad[0])} on, {times}"


def _doubts(row: dict[str, Any]) -> Iterable[str]:
    for source in ("hello", "heartbeats", "monitor"):
        if not row[source]["looks"]:
            yield f"nobody looked at {row['target']} during the hold: no {source}"
