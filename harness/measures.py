"""Measures that rooms share: what one calls hung, so does the other, and a duration is written in one way everywhere.

Numbers alone; it imports nothing of the project.
"""

from __future__ import annotations

import math
import re
from typing import Final

NS: Final = 1_000_000_000
"""Nanoseconds of a second; run time is counted in them."""

DELIVERY: Final = 10
"""How many round trips a delivery takes at most: oplog, majority point, getMore, lookup, merge, the reply."""

DEFAULT_AWAIT_MS: Final = 1000
"""What the server awaits new data for when a getMore carries no `maxTimeMS`."""

OVERDUE: Final = 1.0
"""Seconds past its maxTimeMS from which a getMore is evidence; a busy member is a little late with any of them."""


def overdue(seconds: float, max_time_ms: int | None) -> float:
    """Seconds that a getMore has run past its maxTimeMS, negative before it."""
    return seconds - (max_time_ms or DEFAULT_AWAIT_MS) / 1000


UNANSWERED: Final = "stream watch"
"""Source of an alarm on a getMore that is not answered, of anybody's stream; whether an event is owed nobody knows."""


TICKETS_LOOKED_AT: Final = 0.5
"""Seconds after which what waits for a ticket looks whether it is to end (measured on 6.0.5: after 1.0 s, not 0.7)."""


def ended_by_max_time(seconds: float) -> float:
    """When a maxTimeMS of so many seconds ends a wait for a ticket."""
    return math.ceil(round(seconds / TICKETS_LOOKED_AT, 6)) * TICKETS_LOOKED_AT


_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


def seconds(text: str) -> float:
    """`12s`, `250ms`, `2m` or a plain number of seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("expected a duration such as 12s, 500ms or 2m")
    return float(match["number"]) * _UNITS[match["unit"]]


def duration(number: float) -> str:
    """Seconds for people, exact to the millisecond: `30 s`, `0.7 s`, `120000 s`."""
    return f"{number:.3f}".rstrip("0").rstrip(".") + " s"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


SOUND: Final = "sound"
UNSOUND: Final = "unsound"
"""Outcomes of a run that asks what is left after all its faults, and not how each stream fared meanwhile."""

MAXIMUM: Final = "maximum"
OVERLAP: Final = "overlap"
NO_OVERLAP: Final = "no overlap"
EXCEEDED: Final = "exceeded"
"""Outcomes of a run that counts copies of writes: as many sends, and copies at once, as the settings allow, of every
write; fewer, but more than one copy at once; never more than one; more sends than two for each execution."""

OVERLOADED: Final = "SystemOverloadedError"
"""The label of an error on which drivers resend more than once."""

AS_SHARD: Final = "shard.countStaleConfigErrors"
"""The counter of stale errors that a shard gave, beside those that the router code inside it got."""

ISOLATED: Final = "isolated"
ALL_BLOCKED: Final = "collection blocked"
MORE_BLOCKED: Final = "other collections blocked"
NONE_WAITED: Final = "nothing waited"
"""Outcomes of a run that asks who waits while a router refreshes: only who is for a shard that is stale; all who are
for the collection; others too; nobody."""
