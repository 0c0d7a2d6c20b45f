"""A history folded once into the sheet that is drawn of it; every room of lanes sees its own kinds of events. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from harness.history import Event
from harness.report.page.faults import Faults
from harness.report.page.happenings import Happenings
from harness.report.page.marks import Sheet
from harness.report.page.members import Members
from harness.report.page.rates import Rates
from harness.report.page.routing import Routing
from harness.report.page.streams import Streams
from harness.report.page.writes import Writes

BEHIND: Final = 0.02
"""Share of what is shown at first by which more is shown behind it."""


class Drawing:
    """Feed it with `see`, in order, then ask for the sheet."""

    def __init__(self) -> None:
        self._happenings, self._streams, self._routing = Happenings(), Streams(), Routing()
        writes, rates = Writes(), Rates()
        self._lanes = (self._happenings, Faults(), self._streams, self._routing, writes, Members())
        self._panels = (writes, rates)
        self._seers: defaultdict[str, list[Callable[[Event], None]]] = defaultdict(list)
        for one in (*self._lanes, rates):
            for kind, seer in one.seers.items():
                self._seers[kind].append(seer)
        self._end = 0.0

    def see(self, event: Event) -> None:
        self._end = event.seconds
        if event.kind in self._seers:
            for seer in self._seers[event.kind]:
                seer(event)

    def through(self, events: Iterator[Event]) -> Iterator[Event]:
        """The same events for somebody else, each of them seen on the way."""
        for event in events:
            self.see(event)
            yield event

    def sheet(self, streams: Iterable[Mapping[str, Any]] = ()) -> Sheet:
        """`streams` are the rows of `result.json`, what was found of each."""
        self._streams.judge(streams)
        end = self._end
        sections = [section for one in self._lanes for section in one.sections(end)]
        panels = [panel for one in self._panels for panel in one.panels(end)]
        start, until = self._routing.interesting or (self._happenings.loaded, end)
        return Sheet(max(0.0, start), until + BEHIND * (until - start), sections, panels)
