"""An alarm is a suspicion with evidence: a stream is silent, and a getMore hangs or a member fails its canary.

Pure: joins what the other watchers saw. It names what hangs and whom it waits for, and says how that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.measures import OVERDUE
from harness.watchers.canary import ROUTER, Probe, View
from harness.watchers.currentop import GetMore, Lookup
from harness.watchers.progress import StreamState
from harness.watchers.watched import WatchedMember

LOOKUP: Final = 1.0
"""Seconds that a lookup runs before it is what somebody waits for."""

NAMED_WITHIN: Final = 0.5
"""Seconds that an alarm waits for the name of the member waited for; then it goes out without, and is completed."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at one moment."""

    getmores: Sequence[GetMore] = ()
    lookups: Sequence[Lookup] = ()
    towards: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Connections in use of the members that hold cursors."""
    views: Mapping[str, Mapping[Probe, View]] = field(default_factory=dict)

    def failing(self, member: str) -> list[str]:
        """The probes that the member (or the router) failed when last asked."""
        return [probe for probe, view in self.views.get(member, {}).items() if not view.ok]

    def failing_since(self, member: str) -> int:
        """When the first of them began to fail, in ns of run time."""
        return min((view.since for view in self.views.get(member, {}).values() if not view.ok), default=0)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A silent stream and why. `getmore` and `waits_for` are None where that is not known; `since` in ns."""

    stream: str
    since: int
    after_seconds: float
    getmore: GetMore | None
    waits_for: str | None
    known_by: str | None
    canary: Mapping[str, Any]

    def fields(self) -> dict[str, Any]:
        """As the history has it."""
        return {
            "stream": self.stream,
            "since": self.since,
            "after_seconds": self.after_seconds,
            "getmore": None if self.getmore is None else {**self.getmore.fields(), "source": self.getmore.source},
            "waits_for": self.waits_for,
            "known_by": self.known_by,
            "canary": dict(self.canary),
        }


class Alarms:
    """One alarm per silence, completed once when the member waited for becomes known later."""

    def __init__(self, members: Iterable[WatchedMember], *, threshold: float) -> None:
        self._members = {member.name: member for member in members}
        self._threshold = threshold
        self.open: dict[str, Alarm] = {}

    def judge(
        self, states: Mapping[str, StreamState], evidence: Evidence, now: int
    ) -> tuple[list[Alarm], list[Alarm], list[str]]:
        """New alarms, alarms completed, streams whose alarm is over."""
        raised: list[Alarm] = []
        completed: list[Alarm] = []
        cleared = [stream for stream in self.open if stream not in states or states[stream].state != "silent"]
        for stream in cleared:
            del self.open[stream]
        for stream, state in states.items():
            if state.state != "silent":
                continue
            known = self.open.get(stream)
            if known is not None and known.waits_for is not None and known.getmore is not None:
                continue
            alarm = self._alarm(state, evidence, now)
            if alarm is None:
                continue
            if known is None:
                if alarm.waits_for is None and alarm.after_seconds < self._threshold + NAMED_WITHIN:
                    continue
                raised.append(alarm)
            elif (known.waits_for, known.getmore is None) != (alarm.waits_for, alarm.getmore is None):
                completed.append(alarm)
            else:
                continue
            self.open[stream] = alarm
        return raised, completed, cleared

    def _alarm(self, state: StreamState, evidence: Evidence, now: int) -> Alarm | None:
        getmore = _hanging(state.stream, evidence)
        waits_for, known_by = self._waits_for(state.stream, getmore, evidence)
        if getmore is None and waits_for is None:
            return None
        views = evidence.views.get(waits_for, {}) if waits_for is not None else {}
        canary: dict[str, Any] = {
            probe: {"ok": view.ok, "seconds": round(view.seconds, 3), "error": view.error, "parked": view.parked}
            for probe, view in views.items()
        }
        after = round((now - state.since) / 1e9, 3)
        return Alarm(state.stream, state.since, after, getmore, waits_for, known_by, canary)

    def _waits_for(
        self, stream: str, getmore: GetMore | None, evidence: Evidence
    ) -> tuple[str, str] | tuple[None, None]:
        lookups = [one for one in evidence.lookups if one.stream == stream and one.seconds >= LOOKUP]
        if lookups:
            lookup = max(lookups, key=lambda one: one.seconds)
            return lookup.member, f"lookup in $currentOp of {lookup.member}, opid {lookup.opid}"
        if getmore is not None:
            holder = getmore.member
            counts = {to: count for to, count in evidence.towards.get(holder, {}).items() if to != holder}
            if counts:
                # Of several, the one that also fails its canary; else the one that most wait for.
                to = max(counts, key=lambda name: (bool(evidence.failing(name)), counts[name]))
                return to, f"connPoolStats of {holder}: {counts[to]} in use towards {to}"
            if getmore.source == "router" and (probes := evidence.failing(holder)):
                return holder, f"the router's getMore on it; canary: no {', '.join(probes)}"
        return self._by_canary(getmore, evidence)

    def _by_canary(self, getmore: GetMore | None, evidence: Evidence) -> tuple[str, str] | tuple[None, None]:
        failing = [name for name in self._members if self._members[name].holds_data and evidence.failing(name)]
        if getmore is not None and getmore.member in self._members:
            in_set = self._members[getmore.member].set_name
            failing = [name for name in failing if self._members[name].set_name == in_set and name != getmore.member]
        if not failing and getmore is None and evidence.failing(ROUTER):
            return ROUTER, "canary: no hello"
        if not failing:
            return None, None
        # Of several, the one that fell last: a member long gone did not silence a stream just now.
        name = max(failing, key=lambda one: (evidence.failing_since(one), len(evidence.failing(one))))
        return name, f"canary: no {', '.join(evidence.failing(name))}"


def _hanging(stream: str, evidence: Evidence) -> GetMore | None:
    """The stream's getMore that is overdue; a member's own word goes before the router's."""
    overdue = [one for one in evidence.getmores if one.stream == stream and one.overdue > OVERDUE]
    return max(overdue, key=lambda one: (one.source == "currentOp", one.overdue), default=None)
