"""How late this process's event loop runs: the time in which it could not have seen an event that had arrived.

Pure: fed with wake-up times. A silence is counted without the time in which we were deaf ourselves.
"""

from __future__ import annotations

from collections import deque
from typing import Final

FLOOR: Final = 0.005
"""Seconds; a wake-up less late than this is the timer's own grain."""

REPORTED: Final = 0.1
"""Seconds; from here on a wake-up is late enough for the history."""

KEPT: Final = 600_000_000_000
"""Nanoseconds that deaf spans are remembered; no silence is judged on what is older."""


class Pulse:
    """Deaf spans of the loop, from the wake-ups of one periodic task. Times are run time in ns."""

    def __init__(self) -> None:
        self._deaf: deque[tuple[int, int]] = deque()

    def woke(self, due: int, woke: int) -> float:
        """The periodic task was due at `due` and ran at `woke`; returns the lag in seconds, 0.0 below the floor."""
        lag = (woke - due) / 1e9
        if lag < FLOOR:
            return 0.0
        self._deaf.append((due, woke))
        while self._deaf[0][1] < woke - KEPT:
            self._deaf.popleft()
        return lag

    def deaf(self, since: int, until: int) -> float:
        """Seconds between `since` and `until` in which the loop did not run."""
        total = 0
        for start, end in reversed(self._deaf):
            if end <= since:
                break
            total += max(0, min(end, until) - max(start, since))
        return total / 1e9
