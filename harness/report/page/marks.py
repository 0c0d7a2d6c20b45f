"""What a report's picture is made of: bars, points and curves on lanes that share one axis of time. Plain data.

It knows no history and no way of drawing. Times are seconds of run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

TRACK: Final = 14.0
"""Pixels of an ordinary track."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasts. `style` is a key of styles.py; `text` is what is shown when it is pointed at."""

    start: float
    end: float
    style: str
    text: str
    track: int = 0
    caption: str = ""
    """What is written on it, where there is room."""
    stands_for: int = 1
    """How many marks it was before they were drawn as one."""


@dataclass(frozen=True, slots=True)
class Point:
    """Something that happens at a time."""

    at: float
    style: str
    text: str
    track: int = 0
    stands_for: int = 1


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture with a label; its tracks lie below each other, each so many pixels high."""

    label: str
    bars: Sequence[Bar] = ()
    points: Sequence[Point] = ()
    tracks: Sequence[float] = (TRACK,)


@dataclass(frozen=True, slots=True)
class Section:
    """Lanes of one kind under a title; `note` says what is in a lane, where there is room for it."""

    title: str
    lanes: Sequence[Lane]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A number over time; it stays as it is until the next of its times, unless `sampled`: then it is known there."""

    name: str
    style: str
    at: Sequence[float]
    value: Sequence[float]
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves with an axis of values of their own, below the lanes."""

    title: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The whole picture; what is from `start` to `end` is shown at first, all of it when zoomed out."""

    start: float
    end: float
    sections: Sequence[Section] = field(default=())
    panels: Sequence[Panel] = field(default=())

    def lanes(self) -> Iterator[Lane]:
        for section in self.sections:
            yield from section.lanes

    @property
    def styles(self) -> set[str]:
        """Those of all marks on it."""
        bars = {bar.style for lane in self.lanes() for bar in lane.bars}
        points = {point.style for lane in self.lanes() for point in lane.points}
        return bars | points | {curve.style for panel in self.panels for curve in panel.curves}

    @property
    def count(self) -> int:
        """Marks on it: bars, points, and the corners of curves."""
        on_lanes = sum(len(lane.bars) + len(lane.points) for lane in self.lanes())
        return on_lanes + sum(len(curve.at) for panel in self.panels for curve in panel.curves)


def packed(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each span, in order of its start, the first track on which it overlaps none before it."""
    free: list[float] = []
    tracks = []
    for start, end in spans:
        track = next((number for number, until in enumerate(free) if until <= start), len(free))
        if track == len(free):
            free.append(end)
        else:
            free[track] = end
        tracks.append(track)
    return tracks


def stepped(spans: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """How many of the spans there are at once, as the corners of a staircase."""
    changes: dict[float, int] = {}
    for start, end in spans:
        changes[start] = changes.get(start, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    at, value, now = [], [], 0
    for time in sorted(changes):
        if changes[time]:
            now += changes[time]
            at.append(time)
            value.append(float(now))
    return at, value
