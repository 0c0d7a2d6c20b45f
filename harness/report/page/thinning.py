"""So few marks that a browser stays fluid: what lies closer together than a step is drawn as one. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report.page.marks import Bar, Curve, Lane, Panel, Point, Sheet
from harness.report.page.styles import SEVERAL, weight

MARKS: Final = 10_000
"""At most, in one picture: with so many a browser zooms in about half a second."""
FINEST: Final = 4000
"""The first step tried is the length of the run by this: less than half a pixel of a wide screen."""


COARSE: Final = 4.0
FINE: Final = 1.4


@dataclass(frozen=True, slots=True)
class Thinned:
    """What is drawn, and what was asked of whom draws it."""

    sheet: Sheet
    before: int
    """Marks there were."""
    step: float
    """Seconds; 0: nothing was thinned."""

    @property
    def rule(self) -> str:
        """The rule in one sentence, for the page."""
        if not self.step:
            return f"{self.before} marks, all of them drawn."
        return (
            f"{self.sheet.count} of {self.before} marks are drawn. Bars shorter than {self.step:.2f} s and points "
            f"of one kind closer than that, next to each other in one row, are one mark. It says how many it "
            f"stands for and names the gravest of them; it looks like that one if that lasts half of the time, and "
            f"like none of them if not. Of a curve the highest value in each such step is kept."
        )


def thinned(sheet: Sheet, limit: int = MARKS) -> Thinned:
    """The smallest step, of those tried, that leaves `limit` marks; each is FINE times the one before, or COARSE.

    Past the length of the run nothing is left to be joined: so many rows have more marks than that, and are drawn.
    """
    before = sheet.count
    if before <= limit:
        return Thinned(sheet, before, 0.0)
    end = max((bar.end for lane in sheet.lanes() for bar in lane.bars), default=sheet.end)
    length = max(end, sheet.end, 1e-3)
    step = length / FINEST
    while True:
        fewer = _with(sheet, step)
        if fewer.count <= limit or step > length:
            return Thinned(fewer, before, step)
        step *= COARSE if fewer.count > COARSE * limit else FINE


def _with(sheet: Sheet, step: float) -> Sheet:
    sections = [dataclasses.replace(one, lanes=[_lane(lane, step) for lane in one.lanes]) for one in sheet.sections]
    panels = [Panel(one.title, [_curve(curve, step) for curve in one.curves]) for one in sheet.panels]
    return dataclasses.replace(sheet, sections=sections, panels=panels)


def _lane(lane: Lane, step: float) -> Lane:
    bars: list[Bar] = []
    for track in range(len(lane.tracks)):
        bars += joined_bars(sorted((one for one in lane.bars if one.track == track), key=lambda one: one.start), step)
    points: list[Point] = []
    kinds = sorted({(one.track, one.style) for one in lane.points})
    for track, style in kinds:
        of_kind = (one for one in lane.points if (one.track, one.style) == (track, style))
        points += _points(sorted(of_kind, key=lambda one: one.at), step)
    return dataclasses.replace(lane, bars=bars, points=points)


def joined_bars(bars: Iterable[Bar], step: float) -> list[Bar]:
    """Of one track, in order. A group begins with a short bar, and takes in short bars as long as it is shorter than a
    step itself: so it never hides where something was by more than that."""
    groups: list[list[Bar]] = []
    for bar in bars:
        group = groups[-1] if groups else None
        if (
            group is not None
            and bar.end - bar.start < step
            and group[0].end - group[0].start < step
            and bar.end - group[0].start <= step
        ):
            group.append(bar)
        else:
            groups.append([bar])
    return [_one(group) for group in groups]


def _one(group: Sequence[Bar]) -> Bar:
    if len(group) == 1:
        return group[0]
    gravest = max(group, key=lambda one: weight(one.style))
    count = sum(one.stands_for for one in group)
    end = max(one.end for one in group)
    lasts = sum(one.end - one.start for one in group if one.style == gravest.style)
    # Flickering drawn as nothing but its gravest state would be a picture of something that was not.
    style = gravest.style if lasts >= (end - group[0].start) / 2 else SEVERAL
    text = f"{count} marks within {end - group[0].start:.2f} s, the gravest:\n{gravest.text}"
    return Bar(group[0].start, end, style, text, gravest.track, stands_for=count)


def _points(points: Iterable[Point], step: float) -> list[Point]:
    kept: list[Point] = []
    counts: list[int] = []
    for point in points:
        if kept and point.at - kept[-1].at < step:
            counts[-1] += point.stands_for
        else:
            kept.append(point)
            counts.append(point.stands_for)
    return [
        point
        if count == point.stands_for
        else dataclasses.replace(point, text=f"{count} within {step:.2f} s, the first:\n{point.text}", stands_for=count)
        for point, count in zip(kept, counts, strict=True)
    ]


def _curve(curve: Curve, step: float) -> Curve:
    """The highest value of each step, where it was; the last corner as well, so that it ends as it ended."""
    at: list[float] = []
    value: list[float] = []
    bucket = -1
    for time, height in zip(curve.at, curve.value, strict=True):
        if int(time / step) == bucket:
            if height > value[-1]:
                at[-1], value[-1] = time, height
        else:
            bucket = int(time / step)
            at.append(time)
            value.append(height)
    if curve.at and at[-1] != curve.at[-1]:
        at.append(curve.at[-1])
        value.append(curve.value[-1])
    return dataclasses.replace(curve, at=at, value=value)
