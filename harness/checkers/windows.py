"""The windows of a run in which a fault acted, read from the history's fault and phase events.

Everything that is said to have happened "during the hold" is said of these windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.checkers.columns import Fault
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.measures import NS


@dataclass(frozen=True, slots=True)
class Window:
    """One hold. Times are run time in ns."""

    opened: int
    """The fault's action began: from here on it may have had its effect."""
    active: int
    """Proven active (or, never proven, opened). The hold is counted from here."""
    release: int
    """The release phase, or the first healing, or the end of the record."""
    recovered: int | None
    """All its faults recovered; None: not recorded."""

    @property
    def seconds(self) -> float:
        return (self.release - self.active) / NS


def windows(digest: Digest, context: Context) -> list[Window]:
    """The holds in order; overlapping ones are one. A run without a fault has its hold phase for a window."""
    if not digest.faults:
        hold = digest.phase("hold")
        if hold is None or not context.without_fault:
            return []
        release = digest.phase("release", hold)
        return [Window(hold, hold, digest.end if release is None else release, release)]
    merged: list[Window] = []
    for window in sorted((_of(digest, fault) for fault in digest.faults.values()), key=lambda each: each.opened):
        if not merged or window.opened > merged[-1].release:
            merged.append(window)
            continue
        last = merged[-1]
        recovered = None
        if last.recovered is not None and window.recovered is not None:
            recovered = max(last.recovered, window.recovered)
        merged[-1] = Window(last.opened, min(last.active, window.active), max(last.release, window.release), recovered)
    return merged


def _of(digest: Digest, fault: Fault) -> Window:
    release = min(_ends(digest, fault), default=digest.end)
    active = fault.proven if 0 <= fault.proven <= release else fault.opened
    return Window(fault.opened, active, release, fault.recovered if fault.recovered >= 0 else None)


def _ends(digest: Digest, fault: Fault) -> Iterator[int]:
    if fault.healed >= 0:
        yield fault.healed
    release = digest.phase("release", fault.opened)
    if release is not None:
        yield release


def seconds(t: int) -> float:
    """Run time in seconds, to the millisecond, for evidence."""
    return round(t / NS, 3)


def at(t: int) -> str:
    """Run time in words, for sentences: `12.345 s`."""
    return f"{t / NS:.3f} s"
