"""Was every stalled stream reported while it was stalled, and none that was not?

It judges the watchers against the history; what the streams did is taken from stall.py and silences.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.checkers import stall
from harness.checkers.columns import Stream
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.silences import silences
from harness.checkers.windows import Window, at, seconds, windows
from harness.history import Event
from harness.measures import NS, UNANSWERED

NAME = "alarms"
STATEMENT = "Every stalled stream is reported before the release, and no stream that is not silent under a fault."

DETECTION_SECONDS = 2.0
"""A silence that ended with the release sooner than this after the threshold left no time to be reported."""

SLACK_SECONDS = 1.0
"""An alarm may be recorded this long after its silence ended (its evidence takes time to gather), and this much
before the threshold by our reckoning, which takes the loop's lag off."""


def examine(digest: Digest, context: Context) -> Finding:
    """`evidence.streams`: a row per stream that stalled or was alarmed: at, delay (seconds after the threshold)."""
    held = windows(digest, context)
    outcomes = {row["stream"]: row for row in stall.examine(digest, context).evidence["streams"]}
    rows: list[dict[str, Any]] = []
    false = [each for stream in digest.streams.values() for each in _false(digest, stream, held, context)]
    missed: list[str] = []
    for name, row in outcomes.items():
        first = _first(digest.streams[name], row, held)
        silent = row["outcome"] == stall.STALLED
        if first is None and not silent:
            continue
        known = _completed(digest.streams[name], first)
        rows.append(
            {
                "stream": name,
                "outcome": row["outcome"],
                "detected": first is not None,
                "at": seconds(first.t) if first else None,
                "delay": round(first.t / NS - row["silent_since"] - context.threshold, 3)
                if first and row["silent_since"] is not None
                else None,
                "since_claimed": seconds(first["since"]) if first and first.get("since") is not None else None,
                "waits_for": known.get("waits_for") if known else None,
                "known_by": known.get("known_by") if known else None,
                "canary": known.get("canary") if known else None,
            }
        )
        if first is None and row["proven_seconds"] > context.threshold + DETECTION_SECONDS:
            missed.append(f"stream {name}: stalled since {row['silent_since']:.3f} s, no alarm before the release")
    delays = [row["delay"] for row in rows if row["delay"] is not None]
    evidence: dict[str, Any] = {
        "detected": sum(row["detected"] for row in rows),
        "missed": len(missed),
        "false": len(false),
        "longest_delay": max(delays, default=None),
        "streams": rows,
        "problems": missed + false,
    }
    return Finding(NAME, not (missed or false), STATEMENT, evidence)


def _first(stream: Stream, row: dict[str, Any], held: list[Window]) -> Event | None:
    """The first alarm in any window that is not older than the silence it is to report."""
    since = (row["silent_since"] or 0.0) * NS
    return next(
        (
            alarm
            for alarm in stream.alarms
            if alarm.t >= since - SLACK_SECONDS * NS
            and any(window.opened <= alarm.t <= window.release for window in held)
        ),
        None,
    )


def _completed(stream: Stream, first: Event | None) -> Event | None:
    """The alarm as it was completed later, when the member waited for had become known."""
    if first is None:
        return None
    same = [each for each in stream.alarms if each.t >= first.t and each.get("since") == first.get("since")]
    return max(same, key=lambda each: (each.get("waits_for") is not None, each.t))


def _false(digest: Digest, stream: Stream, held: list[Window], context: Context) -> Iterable[str]:
    slack = int(SLACK_SECONDS * NS)
    least = context.threshold - SLACK_SECONDS
    for alarm in stream.alarms:
        if alarm.get("update") or alarm.source == UNANSWERED:
            continue
        if digest.faults and not any(window.opened <= alarm.t <= _margin(window, context) for window in held):
            yield f"stream {stream.name}: alarm at {at(alarm.t)} outside of any fault"
        elif not digest.faults:
            yield f"stream {stream.name}: alarm at {at(alarm.t)} in a run without a fault"
        elif not any(
            each.start <= alarm.t <= each.end + slack and each.proven_within(each.start, alarm.t) >= least
            for each in silences(digest, stream)
        ):
            yield f"stream {stream.name}: alarm at {at(alarm.t)} although it was not silent"


def _margin(window: Window, context: Context) -> float:
    if window.recovered is not None:
        return max(window.recovered, window.release + context.threshold * NS)
    return window.release + context.recovery_margin * NS
