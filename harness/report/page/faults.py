"""The lane of each fault: opened, proven, healed, recovered; and those that were planned and not tried. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.history import Event
from harness.report.page.marks import Bar, Lane, Point, Section
from harness.report.page.streams import span_in_words


class Faults:
    """Fold the events of `seers`, then ask for the section."""

    def __init__(self) -> None:
        self._faults: dict[str, dict[str, Event]] = {}
        self.seers: Mapping[str, Callable[[Event], None]] = dict.fromkeys(
            (
                "fault.opened",
                "fault.proven",
                "fault.unproven",
                "fault.healed",
                "fault.not_healed",
                "fault.recovered",
                "fault.skipped",
            ),
            self._see,
        )

    def sections(self, end: float) -> list[Section]:
        lanes = [_lane(known, end) for known in self._faults.values() if "opened" in known or "skipped" in known]
        return [Section("faults", lanes)] if lanes else []

    def _see(self, event: Event) -> None:
        self._faults.setdefault(event["id"], {}).setdefault(event.kind.removeprefix("fault."), event)


def _lane(known: Mapping[str, Event], end: float) -> Lane:
    if "opened" not in known:
        skipped = known["skipped"]
        label = f"{skipped['id']} {skipped['fault']} {skipped['on']}"
        return Lane(label, (), [Point(skipped.seconds, "skipped", f"{label}\nskipped: {skipped['reason']}")])
    opened = known["opened"]
    label = f"{opened['id']} {opened['fault']} {opened.get('target') or ''}".strip()
    return Lane(label, list(_bars(label, known, end)), list(_points(label, known)))


def _bars(label: str, known: Mapping[str, Event], end: float) -> Iterable[Bar]:
    opened = known["opened"].seconds
    times = {name: known[name].seconds for name in ("proven", "unproven", "healed", "recovered") if name in known}
    healed = times.get("healed", end)
    head = "\n".join([label, *(known["opened"].get("options") or ())])
    since = times.get("proven")
    lost = times.get("unproven")
    first = min(one for one in (since, lost, healed) if one is not None)
    if first > opened:
        yield Bar(opened, first, "opening", f"{head}\nopened, not proven yet: {span_in_words(opened, first)}")
    if since is not None:
        until = healed if lost is None or lost < since else lost
        evidence: Any = known["proven"].get("evidence") or {}
        told = evidence.get("statement", "") if isinstance(evidence, Mapping) else str(evidence)
        yield Bar(since, until, "proven", f"{head}\nproven: {told}\n{span_in_words(since, until)}")
    if lost is not None and lost < healed:
        reason = known["unproven"].get("reason")
        yield Bar(lost, healed, "unproven", f"{head}\nNOT PROVEN: {reason}\n{span_in_words(lost, healed)}")
    if "healed" in times:
        until = times.get("recovered", end)
        word = "recovered" if "recovered" in times else "not recovered by the end of the run"
        if until > healed:
            yield Bar(healed, until, "recovering", f"{head}\nhealed; {word}: {span_in_words(healed, until)}")


def _points(label: str, known: Mapping[str, Event]) -> Iterable[Point]:
    if "recovered" in known:
        event = known["recovered"]
        yield Point(event.seconds, "recovered", f"{label}\nrecovered at {event.seconds:.2f} s")
    if "not_healed" in known:
        event = known["not_healed"]
        yield Point(event.seconds, "not healed", f"{label}\nNOT HEALED: {event['reason']}")
