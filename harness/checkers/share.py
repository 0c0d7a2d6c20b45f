"""How fast streams freeze, against chance: of N members a lookup meets the broken one with 1/N, n lookups 1-(1-1/N)^n.

N is measured: the members in the latency window of the one that looks up for the stream, as it was when the selection
had settled. Says nothing of a run in which that was not recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, Final

from harness.checkers.columns import Stream
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.silences import silences
from harness.checkers.windows import Window, windows
from harness.measures import NS

NAME = "share"
STATEMENT = "The share of frozen streams grows with their lookups as 1-(1-1/N)^n, N members being in the window."

CONFIDENCE: Final = 0.95
TIMES: Final = (0.5, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 60, 120)
"""Seconds since the fault at which a row is shown."""


@dataclass(frozen=True, slots=True)
class Course:
    """One stream: the chance of each lookup to freeze it, and after how many lookups answered it froze (None: not)."""

    chance: float
    answered: int | None


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.rows`: seconds, lookups, predicted and measured share, the band of the row and whether it holds.

    The whole curve is judged by its largest distance (Dvoretzky, Kiefer, Wolfowitz): of many rows, each with a band of
    95 %, one may well be outside.
    """
    held = windows(digest, context)
    fault = next(iter(digest.faults.values()), None)
    if not digest.selections or not held or fault is None:
        return None
    window = held[0]
    sizes = {
        stream: len(one["window"]) if fault.target in one["window"] else 0
        for one in digest.selections
        # A cursor on the broken member is not frozen by a lookup.
        if one["set"] == digest.set_of(fault.target) and one["member"] != fault.target
        for stream in one["streams"]
    }
    courses = [
        Course(1 / sizes[name] if sizes[name] else 0.0, answered(digest, stream, window, fault.target, context))
        for name, stream in digest.streams.items()
        if name in sizes
    ]
    last = window.seconds - context.threshold
    times = [time for time in TIMES if time <= last]
    if not courses or not times:
        return Finding(NAME, "unknown", STATEMENT, {"doubts": ["no stream's lookups could be counted"], "rows": []})
    offered = _offered(digest, window, fault.target)
    rows = [row(courses, bisect_right(offered, time * NS), time) for time in times]
    bound = sqrt(log(2 / (1 - CONFIDENCE)) / (2 * len(courses)))
    distance = max(abs(predicted(courses, n) - measured(courses, n)) for n in range(rows[-1]["lookups"] + 1))
    evidence: dict[str, Any] = {
        "streams": len(courses),
        "window_sizes": sorted(set(sizes.values())),
        "rows": rows,
        "rows_inside": sum(one["inside"] for one in rows),
        "distance": round(distance, 3),
        "bound": round(bound, 3),
        "problems": [f"the largest distance is {distance:.2f}, chance allows {bound:.2f}"] if distance > bound else [],
    }
    return Finding(NAME, distance <= bound, STATEMENT, evidence)


def answered(digest: Digest, stream: Stream, window: Window, target: str, context: Context) -> int | None:
    """How many lookups on the target's set a stream had answered since the fault when it froze; None: it did not."""
    for silence in silences(digest, stream):
        # One that lasted to the release needs no allowance for a slow machine: it did not end by itself.
        length = silence.within if silence.end >= window.release else silence.proven_within
        if silence.end > window.opened and length(window.opened, window.release) > context.threshold:
            first, last = (bisect_right(stream.delivered_at, t) for t in (window.opened, silence.start))
            shard = digest.set_of(target)
            return sum(digest.writes.shard[index] == shard for index in stream.delivered[first:last])
    return None


def row(courses: Sequence[Course], n: int, time: float) -> dict[str, Any]:
    share = measured(courses, n)
    low, high = band([1 - (1 - one.chance) ** n for one in courses])
    return {
        "seconds": time,
        "lookups": n,
        "predicted": round(predicted(courses, n), 3),
        "measured": round(share, 3),
        "band": [round(low, 3), round(high, 3)],
        "inside": low <= share <= high,
    }


def predicted(courses: Sequence[Course], n: int) -> float:
    return sum(1 - (1 - one.chance) ** n for one in courses) / len(courses)


def measured(courses: Sequence[Course], n: int) -> float:
    """By count of lookups, not by the clock: how late an event was delivered plays no part."""
    return sum(one.answered is not None and one.answered < n for one in courses) / len(courses)


def band(chances: Sequence[float]) -> tuple[float, float]:
    """The central 95 % of the share of successes of independent trials: exact, binomial where all chances are alike."""
    distribution = [1.0]
    for chance in chances:
        failed = [each * (1 - chance) for each in distribution] + [0.0]
        succeeded = [0.0] + [each * chance for each in distribution]
        distribution = [a + b for a, b in zip(failed, succeeded, strict=True)]
    tail = (1 - CONFIDENCE) / 2
    below, low, high = 0.0, 0, len(chances)
    for count, probability in enumerate(distribution):
        if below + probability <= tail:
            low = count + 1
        if below <= 1 - tail:
            high = count
        below += probability
    return low / len(chances), high / len(chances)


def _offered(digest: Digest, window: Window, target: str) -> list[int]:
    """When each write that a stream must look up was acknowledged, in ns since the fault."""
    writes, shard = digest.writes, digest.set_of(target)
    return [
        writes.ended[index] - window.opened
        for index in writes.acknowledged
        if writes.shard[index] == shard and window.opened < writes.ended[index] <= window.release
    ]
