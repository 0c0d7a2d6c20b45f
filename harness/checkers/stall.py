"""What became of each stream while the fault was held: stalled, bounded, error surfaced, or no effect.

It compares silences with fault windows and adds the evidence of the watchers; it does not ask whether an alarm was
raised (alarms.py) or whether events were lost (delivery.py).

Outcomes of a stream, from the fault's action to the release:
- `error surfaced`: an error reached the consumer;
- `stalled`: silent beyond the threshold until the release, longer than any silence that had ended by itself;
- `bounded`: silent beyond the threshold, but delivered again by itself before the release;
- `no effect`: none of these.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Any, Final

from harness.checkers.columns import GetMore, Stream
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.silences import Silence, outstanding_at, silences
from harness.checkers.windows import Window, seconds, windows
from harness.history import Event
from harness.measures import NS, OVERDUE

NAME = "stall"
STATEMENT = (
    "No stream stays silent, without an error and with acknowledged writes undelivered, until a fault is released."
)

STALLED: Final = "stalled"
BOUNDED: Final = "bounded"
ERROR: Final = "error surfaced"
NO_EFFECT: Final = "no effect"
OUTCOMES: Final = (STALLED, ERROR, BOUNDED, NO_EFFECT)
"""Gravest first: a stream held several times has the gravest of its outcomes."""


def examine(digest: Digest, context: Context) -> Finding:
    """`evidence.streams` has a row (see `_row`) per stream that was open when the fault began; `counts` by outcome."""
    held = windows(digest, context)
    if context.asks_what_is_left:
        held = [window for window in held if window.seconds > context.threshold]
    rows: list[dict[str, Any]] = []
    doubts: list[str] = []
    if not held:
        doubts.append("no fault was held long enough" if context.asks_what_is_left else "no fault was held")
    doubts += [
        f"the hold of {window.seconds:.1f} s is no longer than the stall threshold of {context.threshold:.1f} s"
        for window in held
        if window.seconds <= context.threshold
    ]
    for stream in digest.streams.values():
        judged = [_row(digest, stream, window, context) for window in held if 0 <= stream.opened < window.opened]
        if judged:
            rows.append(min(judged, key=lambda row: OUTCOMES.index(row["outcome"])))
        elif held:
            doubts.append(f"stream {stream.name} was not open when the fault began")
    doubts += [
        f"stream {row['stream']} was already silent for {row['silent_before']} s when the fault began"
        for row in rows
        if row["silent_before"] > context.threshold
    ]
    stalled = [row for row in rows if row["outcome"] == STALLED]
    counts = Counter(row["outcome"] for row in rows)
    evidence: dict[str, Any] = {
        "counts": {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]},
        "threshold": context.threshold,
        "windows": [
            {name: seconds(getattr(window, name)) for name in ("opened", "active", "release")} for window in held
        ],
        "streams": rows,
        "problems": [_sentence(row) for row in stalled],
        "doubts": doubts,
    }
    return Finding(NAME, "unknown" if doubts or not rows else not stalled, STATEMENT, evidence)


def _row(digest: Digest, stream: Stream, window: Window, context: Context) -> dict[str, Any]:
    """One stream in one window; times in seconds of run time, None where there is nothing to tell.

    `silent_seconds`, `proven_seconds` (less what a slow machine may explain) and `share_of_hold` are of the part inside
    the hold; `errors` are counts by code and name;
    `getmore` is the longest hanging one; `ended_by` says what ended the silence: release, itself, or nothing did.
    """
    found = [each for each in silences(digest, stream) if each.end > window.opened and each.start < window.release]
    getmore = _getmore(stream, window)
    lasting = [each for each in found if _lasting(each, window, getmore, context.threshold)]
    errors = [error for error in stream.errors if window.opened <= error.t <= window.release]
    outcome, silence = _outcome(lasting, bool(errors), window)
    held = silence.within(window.active, window.release) if silence else 0.0
    first, last = bisect_left(stream.delivered_at, window.active), bisect_right(stream.delivered_at, window.release)
    waits_for, known_by = _waits_for(digest, stream, getmore, window)
    return {
        "stream": stream.name,
        "outcome": outcome,
        "silent_since": seconds(silence.start) if silence else None,
        "silent_seconds": round(held, 3),
        "proven_seconds": round(silence.proven_within(window.active, window.release), 3) if silence else 0.0,
        "share_of_hold": round(held / window.seconds, 3) if window.seconds > 0 else 0.0,
        "ended_by": _ended_by(silence, window),
        "silent_before": round(max((each.proven_within(0, window.opened) for each in found), default=0.0), 3),
        "outstanding": outstanding_at(digest, stream, window.release),
        "delivered_before": bisect_left(stream.delivered_at, window.opened),
        "delivered_in_hold": last - first,
        "error_count": len(errors),
        "errors": counted(errors),
        "resumes": sum(window.opened <= resume.t <= window.release for resume in stream.resumes),
        "empty_batches": _empty_batches(stream, silence, window),
        "closed": stream.closed_reason if stream.closed_early else None,
        "getmore": getmore
        and {
            "member": getmore.member,
            "opid": getmore.opid,
            "seconds": getmore.seconds,
            "max_time_ms": getmore.max_time_ms,
            "source": getmore.source,
        },
        "waits_for": waits_for,
        "known_by": known_by,
    }


def _lasting(silence: Silence, window: Window, getmore: GetMore | None, threshold: float) -> bool:
    """Whether a silence outlasted the threshold.

    On a slow machine as much is taken off it as anything took there; but not where a getMore was seen to hang for as
    long and the silence lasted to the release: that did not end by itself, however slow all else was.
    """
    if silence.proven_within(window.opened, window.release) > threshold:
        return True
    until_release = silence.end >= window.release and silence.within(window.opened, window.release) > threshold
    return until_release and getmore is not None and getmore.seconds > threshold


def _outcome(lasting: list[Silence], errors: bool, window: Window) -> tuple[str, Silence | None]:
    """The outcome and the silence that is evidence for it, if any."""

    def length(silence: Silence) -> float:
        return silence.within(window.opened, window.release)

    longest = max(lasting, key=length, default=None)
    if errors:
        return ERROR, longest
    if longest is None:
        return NO_EFFECT, None
    until_release = longest.end >= window.release
    return (STALLED if until_release else BOUNDED), longest


def _ended_by(silence: Silence | None, window: Window) -> str | None:
    if silence is None or not silence.ended:
        return None
    return "release" if silence.end >= window.release else "itself"


def counted(errors: list[Event]) -> list[dict[str, Any]]:
    """Distinct errors by code, name and text, and how many of each."""
    counted = Counter((error.get("code"), error.get("code_name"), str(error.get("error"))[:200]) for error in errors)
    return [{"code": code, "code_name": name, "error": error, "count": n} for (code, name, error), n in counted.items()]


def _empty_batches(stream: Stream, silence: Silence | None, window: Window) -> int:
    if silence is None:
        return 0
    end = min(silence.end, window.release)
    return bisect_right(stream.empty_at, end) - bisect_left(stream.empty_at, silence.start)


def _getmore(stream: Stream, window: Window) -> GetMore | None:
    """The longest past its maxTimeMS that ran in the window; one from `$currentOp` goes before a router's own."""
    hung = [
        each
        for each in stream.getmores.values()
        # It may be seen for a while after the release: a member that was frozen must catch up before it answers.
        if each.overdue > OVERDUE and window.opened <= each.last_seen and each.began <= window.release
    ]
    return max(hung, key=lambda each: (each.source == "currentOp", each.seconds), default=None)


def _waits_for(digest: Digest, stream: Stream, getmore: GetMore | None, window: Window) -> tuple[Any, str | None]:
    """The member waited for and how that is known: the alarm's word, else a lookup seen there, else pool counts."""

    def inside(event: Event) -> bool:
        return window.opened <= event.t <= window.release + NS

    for alarm in filter(inside, stream.alarms):
        if alarm.get("waits_for") is not None:
            return alarm["waits_for"], alarm.get("known_by")
    for lookup in filter(inside, stream.lookups):
        return lookup["member"], "currentOp"
    if getmore is not None:
        in_use = Counter[str]()
        for pool in filter(inside, digest.pools.get(getmore.member, ())):
            in_use[pool["towards"]] = max(in_use[pool["towards"]], pool["in_use"])
        if in_use:
            return in_use.most_common(1)[0][0], "connPoolStats"
    return None, None


def _sentence(row: dict[str, Any]) -> str:
    text = (
        f"stream {row['stream']}: silent since {row['silent_since']:.3f} s, for {row['silent_seconds']:.1f} s "
        f"({row['share_of_hold']:.0%}) of the hold, {row['outstanding']} acknowledged writes undelivered, "
        f"{row['empty_batches']} empty batches, no error"
    )
    getmore = row["getmore"]
    if getmore:
        text += (
            f"; getMore {getmore['opid']} on {getmore['member']} ran {getmore['seconds']:.1f} s "
            f"against maxTimeMS {getmore['max_time_ms']}"
        )
    if row["waits_for"]:
        text += f"; waits for {row['waits_for']} (known by {row['known_by']})"
    return text
