"""The lane of each member: what the canaries' probes were answered, a track for each probe. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.history import Event
from harness.report.page.marks import Bar, Lane, Section
from harness.report.page.streams import span_in_words

PROBES: Final[Mapping[str, str]] = {
    "hello": "hello",
    "find": "plain read",
    "causal": "causal read",
    "aggregate": "aggregate",
}
"""In the order of their tracks."""
TRACK: Final = 6.0
SLOW: Final = 1.0
"""Seconds from which an answer counts as slow."""
UNSEEN: Final = 10.0
"""Seconds without a look after an answer, past which nothing is claimed of the time in between. After none the look is
still out: there is one at a time."""


class Members:
    """Fold the events of `seers`, then ask for the section."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, list[_Span]]] = {}
        self.seers: Mapping[str, Callable[[Event], None]] = {"canary": self._canary}

    def sections(self, end: float) -> list[Section]:
        probes = [name for name in PROBES if any(name in seen for seen in self._runs.values())]
        if not probes:
            return []
        note = "from top to bottom: " + ", ".join(PROBES[name] for name in probes)
        tracks = (TRACK,) * len(probes)
        lanes = [
            Lane(
                member,
                [
                    one.bar(member, probe, track)
                    for track, probe in enumerate(probes)
                    for one in self._runs[member].get(probe, ())
                ],
                (),
                tracks,
            )
            for member in sorted(self._runs)
        ]
        return [Section("members", lanes, note)]

    def _canary(self, event: Event) -> None:
        probe = event["probe"]
        if probe not in PROBES:
            return
        took = event.get("seconds") or 0.0
        style = "no answer" if not event["ok"] else "slow" if took > SLOW else "answers"
        spans = self._runs.setdefault(event["member"], {}).setdefault(probe, [])
        began = event.seconds - took
        last = spans[-1] if spans else None
        if last is not None and last.style != "no answer" and began - last.end > UNSEEN:
            last = None
        if last is not None and last.style == style:
            last.end, last.looks = event.seconds, last.looks + 1
            last.slowest = max(last.slowest, took)
            return
        if last is not None:
            # What was found holds until the probe was sent that found something else.
            last.end = max(last.start, began)
            began = max(began, last.end)
        spans.append(_Span(began, event.seconds, style, took, event.get("error"), bool(event.get("parked"))))


class _Span:
    """Looks in a row that found the same."""

    def __init__(self, start: float, end: float, style: str, took: float, error: str | None, parked: bool) -> None:
        self.start, self.end, self.style = start, end, style
        self.slowest, self.looks = took, 1
        self.error, self.parked = error, parked

    def bar(self, member: str, probe: str, track: int) -> Bar:
        looks = "one look" if self.looks == 1 else f"{self.looks} looks"
        lines = [
            f"{member}, {PROBES[probe]}: {self.style}",
            span_in_words(self.start, self.end),
            f"{looks}, the slowest {self.slowest:.2f} s",
        ]
        if self.style == "no answer" and self.error:
            lines.append(self.error)
        if self.parked:
            lines.append("an earlier probe is still on the server")
        return Bar(self.start, self.end, self.style, "\n".join(lines), track)
