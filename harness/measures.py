"""Measures that the watchers of a run and the checkers of its record share: what one calls hung, so does the other.

Numbers alone; it imports nothing of the project.
"""

from __future__ import annotations

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


SOUND: Final = "sound"
UNSOUND: Final = "unsound"
"""Outcomes of a run that asks what is left after all its faults, and not how each stream fared meanwhile."""
