"""Two curves below the lanes of a run with streams: events delivered and writes acknowledged in each second. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.history import Event
from harness.measures import NS
from harness.report.page.marks import Curve, Panel

BINS: Final = 600
"""At most so many steps of one curve."""


class Rates:
    """Fold the events of `seers`, then ask for the panel."""

    def __init__(self) -> None:
        self._delivered = array("q")
        self._acknowledged = array("q")
        self.seers: Mapping[str, Callable[[Event], None]] = {
            "stream.event": lambda event: self._delivered.append(event.t),
            "write.ok": lambda event: self._acknowledged.append(event.t),
        }

    def panels(self, end: float) -> list[Panel]:
        told = (("events delivered", "events", self._delivered), ("writes acknowledged", "writes", self._acknowledged))
        curves = [_curve(name, style, times, end) for name, style, times in told if times]
        return [Panel("per second", curves)] if curves else []


def _curve(name: str, style: str, times: Sequence[int], end: float) -> Curve:
    width = max(1.0, end / BINS)
    counts = [0] * (int(end / width) + 1)
    for t in times:
        counts[min(int(t / NS / width), len(counts) - 1)] += 1
    return Curve(name, style, [number * width for number in range(len(counts))], [one / width for one in counts])
