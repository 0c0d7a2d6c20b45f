"""A history folded once into the sheet that is drawn of it; every room of lanes sees its own kinds of events. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from harness.history import Event
from harness.report.page.faults import Faults
from harness.report.page.happenings import Happenings
from harness.report.page.marks import Sheet
from harness.report.page.members import Members
from harness.report.page.rates import Rates
from harness.report.page.streams import Streams

BEFORE: Final = 0.02
"""Share of what is shown at first that lies before and after it."""


class Drawing:
    """Feed it with `see`, in order, then ask for the sheet."""

    def __init__(self) -> None:
        self._happenings, self._rates = Happenings(), Rates()
        self._lanes = (self._happenings, Faults(), Streams(), Members())
        self._seers: defaultdict[str, list[Callable[[Event], None]]] = defaultdict(list)
        for one in (*self._lanes, self._rates):
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

    def sheet(self) -> Sheet:
        end = self._end
        sections = [section for one in self._lanes for section in one.sections(end)]
        start, until = self._happenings.loaded, end
        margin = BEFORE * (until - start)
        return Sheet(max(0.0, start - margin), until + margin, sections, self._rates.panels(end))
