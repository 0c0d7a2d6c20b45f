"""Two lanes at the top: the phases of a run, and what happened to its cluster besides faults. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.history import Event
from harness.report.page.marks import Bar, Lane, Point, Section
from harness.report.page.streams import span_in_words
from harness.report.sentences import sentence


class Happenings:
    """Fold the events of `seers`, then ask for the section."""

    def __init__(self) -> None:
        self._phases: list[tuple[float, str]] = []
        self._points: list[Point] = []
        self.seers: Mapping[str, Callable[[Event], None]] = {
            "phase": lambda event: self._phases.append((event.seconds, event["name"])),
            "cluster": self._cluster,
            "release": self._release,
        }

    @property
    def loaded(self) -> float:
        """When the bring-up was over; what is before is the cluster's affair."""
        return next((start for start, name in self._phases if name != "bring-up"), 0.0)

    def sections(self, end: float) -> list[Section]:
        ends = [start for start, _ in self._phases[1:]]
        bars = [
            Bar(start, stop, "phase", f"phase {name}\n{span_in_words(start, stop)}", caption=name)
            for (start, name), stop in zip(self._phases, [*ends, end], strict=False)
        ]
        lanes = [Lane("phase", bars, (), (18.0,))] if bars else []
        if self._points:
            lanes.append(Lane("events", (), self._points))
        return [Section("run", lanes)] if lanes else []

    def _cluster(self, event: Event) -> None:
        told = sentence(event) or _plainly(event)
        style = "primary" if event["what"] == "primary changed" else "happened"
        self._points.append(Point(event.seconds, style, f"{event.seconds:.2f} s: {told}"))

    def _release(self, event: Event) -> None:
        told = sentence(event) or _plainly(event)
        self._points.append(Point(event.seconds, "released", f"{event.seconds:.2f} s: {told}"))


def _plainly(event: Event) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in event.fields.items() if name != "what")
    return f"{event['what']}: {fields}" if fields else str(event["what"])
