"""Did a driver timeout end, or even notice, the silence of a stream?

Only for runs whose streams were given one. A router answers an empty batch every second while it waits for its
shards, so a read deadline above that never passes (measured with pymongo 4.20: socketTimeoutMS and timeoutMS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.checkers import stall
from harness.checkers.columns import Stream
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import Window, windows
from harness.history import Event

NAME = "timeouts"
STATEMENT = "A stream that is silent for longer than its driver's timeout gets an error from it."

READ_TIMEOUTS = ("sockettimeoutms", "timeoutms")
"""Options that bound a read; connecting and server selection are other waits."""


def examine(digest: Digest, context: Context) -> Finding | None:
    """None where no read timeout was set; unknown where no stream was silent for longer than it."""
    limit = read_timeout(context.driver_options)
    if limit is None:
        return None
    option, bound = limit
    held = windows(digest, context)
    outcome = stall.examine(digest, context)
    overdue = [row for row in outcome.evidence["streams"] if row["silent_seconds"] > bound]
    fired = {row["stream"]: _fired(digest.streams[row["stream"]], held) for row in overdue}
    unnoticed = [row for row in overdue if not fired[row["stream"]]]
    evidence: dict[str, Any] = {
        "option": option,
        "seconds": bound,
        "streams_silent_for_longer": len(overdue),
        "streams_with_a_timeout": len(overdue) - len(unnoticed),
        "timeouts": sum(fired.values()),
        "resumes": sum(row["resumes"] for row in overdue),
        "empty_batches": sum(row["empty_batches"] for row in overdue),
        "problems": [],
    }
    if not overdue:
        return Finding(NAME, "unknown", STATEMENT, evidence)
    if unnoticed:
        some = f"did not fire on {len(unnoticed)} of {len(overdue)} silent streams"
        evidence["problems"].append(
            f"{option} of {bound:g} s: the timeout {'never fired' if len(unnoticed) == len(overdue) else some}: "
            f"{len(unnoticed)} streams silent for {max(row['silent_seconds'] for row in unnoticed):.1f} s, "
            f"{sum(row['error_count'] for row in unnoticed)} errors; "
            f"the router answered {sum(row['empty_batches'] for row in unnoticed)} empty batches"
        )
    return Finding(NAME, not unnoticed, STATEMENT, evidence)


def read_timeout(options: Mapping[str, Any]) -> tuple[str, float] | None:
    """The shortest read timeout among driver options, by name, in seconds."""
    found = []
    for name, value in options.items():
        if name.lower() in READ_TIMEOUTS:
            try:
                milliseconds = float(value)
            except (TypeError, ValueError):
                continue
            if milliseconds > 0:
                found.append((name, milliseconds / 1000))
    return min(found, key=lambda each: each[1], default=None)


def _fired(stream: Stream, held: list[Window]) -> int:
    """Client-side timeouts in the holds: raised, or swallowed by the driver, which then resumed by itself."""
    return sum(
        _client_side(event)
        for event in (*stream.errors, *stream.resumes)
        if any(window.opened <= event.t <= window.release for window in held)
    )


def _client_side(event: Event) -> bool:
    """A driver's own read timeout has no server code; failing to select a server is another wait."""
    error = str(event.get("error")).lower()
    own = "networktimeout" in error or "timed out" in error
    return own and event.get("code") is None and "serverselection" not in error
