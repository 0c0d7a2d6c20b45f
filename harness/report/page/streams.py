"""The lane of each change stream: its state over time, errors, resumes, alarms, and getMores that hung. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from harness.checkers import stall
from harness.checkers.columns import GetMore
from harness.history import Event
from harness.measures import DEFAULT_AWAIT_MS, NS, OVERDUE
from harness.report.page.marks import Bar, Lane, Point, Section
from harness.report.sentences import first_sentence

STATES: Final = frozenset(("delivering", "quiet", "lagging", "silent"))
TRACKS: Final = (13.0, 7.0)
"""Pixels of the state, and of the hung getMores below it."""
SILENT: Final = (stall.STALLED, stall.BOUNDED)
"""Outcomes of a stream that was silent."""
BLINK: Final = 0.2
"""Seconds: an error that is resumed from sooner is a point, and takes nothing of the state."""

Span = tuple[float, float]


class Streams:
    """Fold the events of `seers`, then ask for the section."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}
        self.seers: Mapping[str, Callable[[Event], None]] = {
            "stream.opened": self._opened,
            "stream.state": lambda event: self._of(event).states.append(
                (min(event["since"], event.t), event["state"], event["outstanding"])
            ),
            "stream.error": lambda event: self._of(event).errors.append(event),
            "stream.resumed": lambda event: self._of(event).resumes.append(event),
            "stream.closed": self._closed,
            "alarm": self._alarm,
            "alarm.cleared": lambda event: self._of(event).cleared.append(event.t),
            "getmore": self._getmore,
        }

    def judge(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """What was found of each stream afterwards. On a busy machine the watcher calls no stream silent that may have
        been waiting for the watcher itself; the record shows it all the same."""
        for row in rows:
            if row["stream"] in self._streams and row["outcome"] in SILENT:
                self._streams[row["stream"]].judged = row

    def sections(self, end: float) -> list[Section]:
        ordered = sorted(self._streams.values(), key=lambda one: (len(one.name), one.name))
        return [Section("change streams", [one.lane(end) for one in ordered])] if ordered else []

    def _of(self, event: Event) -> _Stream:
        name = event["stream"]
        if name not in self._streams:
            self._streams[name] = _Stream(name)
        return self._streams[name]

    def _opened(self, event: Event) -> None:
        one = self._of(event)
        one.closed = None
        one.openings.append(event.t)

    def _closed(self, event: Event) -> None:
        self._of(event).closed = event.t

    def _alarm(self, event: Event) -> None:
        """What completes an alarm takes its place."""
        self._of(event).alarms.setdefault(event["since"], []).append(event)

    def _getmore(self, event: Event) -> None:
        if event.get("stream") is None:
            return
        seen = GetMore(
            event["member"], event.get("opid"), event.source, event.get("max_time_ms"), event["seconds"], event.t
        )
        known, identity = self._of(event).getmores, (seen.member, str(seen.opid), seen.source)
        if identity not in known or known[identity].seconds <= seen.seconds:
            known[identity] = seen


class _Stream:
    def __init__(self, name: str) -> None:
        self.name = name
        self.openings: list[int] = []
        self.closed: int | None = None
        self.states: list[tuple[int, str, int]] = []
        """Since when, which, how many marks were outstanding when that was told."""
        self.errors: list[Event] = []
        self.resumes: list[Event] = []
        self.alarms: defaultdict[int, list[Event]] = defaultdict(list)
        self.cleared: list[int] = []
        self.getmores: dict[tuple[str, str, str], GetMore] = {}
        self.judged: Mapping[str, Any] | None = None

    def lane(self, end: float) -> Lane:
        until = end if self.closed is None else self.closed / NS
        hung = [one for one in self.getmores.values() if one.overdue > OVERDUE]
        broken = self._broken(until)
        found = self._found(hung)
        taken = sorted([*((one[0], one[1]) for one in broken), *((bar.start, bar.end) for bar in found)])
        bars = [*self._states(until, taken, hung), *found, *(self._error(one) for one in broken)]
        bars += [_hung(self.name, one) for one in sorted(hung, key=lambda one: one.began)]
        return Lane(self.name, bars, list(self._points()), TRACKS)

    def _broken(self, until: float) -> list[tuple[float, float, Event]]:
        """From each error to what resumed from it."""
        back = sorted([*(one.t for one in self.resumes), *self.openings])
        spans: list[tuple[float, float, Event]] = []
        for error in self.errors:
            resumed = next((t / NS for t in back if t >= error.t), until)
            if resumed - error.seconds >= BLINK and (not spans or spans[-1][1] <= error.seconds):
                spans.append((error.seconds, resumed, error))
        return spans

    def _found(self, hung: Sequence[GetMore]) -> list[Bar]:
        """The silence that was found afterwards, where none was told while it lasted."""
        row = self.judged
        if row is None or row.get("silent_since") is None or not row.get("silent_seconds"):
            return []
        start, stop = row["silent_since"], row["silent_since"] + row["silent_seconds"]
        if any(state == "silent" and since < stop and end > start for since, end, state, _ in self._spans(stop)):
            return []
        lines = [f"{self.name}: silent, found afterwards", span_in_words(start, stop)]
        lines += [in_words(one) for one in hung if one.began / NS < stop and one.last_seen / NS > start]
        if row.get("waits_for"):
            lines.append(f"waits for {row['waits_for']} ({row.get('known_by')})")
        return [Bar(start, stop, "silent", "\n".join(lines))]

    def _spans(self, until: float) -> list[tuple[float, float, str, int]]:
        """Each state from when to when. A silence is told late, and reaches back over what was told meanwhile."""
        spans, end = [], until
        for since, state, owed in reversed(self.states):
            if since / NS < end:
                spans.append((since / NS, end, state, owed))
                end = since / NS
        return spans[::-1]

    def _states(self, until: float, taken: Sequence[Span], hung: Sequence[GetMore]) -> Iterable[Bar]:
        for since, end, state, owed in self._spans(until):
            if state not in STATES:
                continue
            for start, stop in cut((since, end), taken):
                lines = [f"{self.name}: {state}", span_in_words(start, stop)]
                if owed:
                    lines.append(f"{owed} events owed when that was told")
                if state == "silent":
                    lines += self._evidence(start, stop, hung)
                yield Bar(start, stop, state, "\n".join(lines))

    def _evidence(self, start: float, stop: float, hung: Sequence[GetMore]) -> Iterable[str]:
        """What hung while it was silent, and whom it waited for."""
        for one in hung:
            if one.began / NS < stop and one.last_seen / NS > start:
                yield in_words(one)
        for since, alarms in self.alarms.items():
            if start - 1 <= since / NS < stop and (waits_for := alarms[-1].get("waits_for")):
                yield f"waits for {waits_for} ({alarms[-1].get('known_by')})"

    def _error(self, broken: tuple[float, float, Event]) -> Bar:
        start, stop, error = broken
        what = first_sentence(error["error"])
        return Bar(start, stop, "error", f"{self.name}: {what}\nnot resumed, {span_in_words(start, stop)}")

    def _points(self) -> Iterable[Point]:
        for one in self.errors:
            labels = ", ".join(one.get("labels") or ()) or "no label"
            text = f"{self.name}: error at {one.seconds:.2f} s\n{first_sentence(one['error'])}\n{labels}"
            yield Point(one.seconds, "failed", text)
        for one in self.resumes:
            yield Point(one.seconds, "resumed", f"{self.name}: resumed by the {one['by']} at {one.seconds:.2f} s")
        for alarms in self.alarms.values():
            yield Point(alarms[0].seconds, "alarm", _alarm(alarms))
        for t in self.cleared:
            yield Point(t / NS, "cleared", f"{self.name}: delivers again at {t / NS:.2f} s, alarm cleared")


def cut(span: Span, holes: Sequence[Span]) -> list[Span]:
    """What is left of a span without the holes, which are in order and apart."""
    left, (start, end) = [], span
    for opens, closes in holes:
        if closes <= start or opens >= end:
            continue
        if opens > start:
            left.append((start, opens))
        start = closes
    if start < end:
        left.append((start, end))
    return left


def span_in_words(start: float, end: float) -> str:
    return f"{start:.2f} s to {end:.2f} s: {end - start:.2f} s"


def in_words(one: GetMore) -> str:
    """`getMore opid 1851 on shard0-1 runs 12.3 s, maxTimeMS 1000 (currentOp)`"""
    limit = one.max_time_ms if one.max_time_ms is not None else f"none, {DEFAULT_AWAIT_MS} by default"
    return f"getMore opid {one.opid} on {one.member}: {one.seconds:.1f} s, maxTimeMS {limit} ({one.source})"


def _hung(stream: str, one: GetMore) -> Bar:
    start, end = one.began / NS, one.last_seen / NS
    text = f"{stream}: {in_words(one)}\n{span_in_words(start, end)}, as last seen"
    return Bar(start, end, "hung", text, track=1)


def _alarm(alarms: Sequence[Event]) -> str:
    first, last = alarms[0], alarms[-1]
    lines = [f"{first['stream']}: ALARM at {first.seconds:.2f} s, silent for {first['after_seconds']:.1f} s"]
    getmore: Mapping[str, Any] = last.get("getmore") or {}
    if getmore:
        lines.append(
            f"getMore opid {getmore.get('opid')} on {getmore.get('member')}: {getmore.get('seconds', 0):.1f} s, "
            f"maxTimeMS {getmore.get('max_time_ms')}"
        )
    if last.get("waits_for"):
        lines.append(f"waits for {last['waits_for']} ({last.get('known_by')})")
    return "\n".join(lines)
