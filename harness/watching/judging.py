"""From what was seen of all members to a picture and its alarms: the alarms of a run, fed from a stranger's cluster.

Pure. Each silent stream and each pile of copies is one alarm from when it is seen until it is not any more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.history import Event
from harness.measures import NS
from harness.watchers.alarms import Alarm, Alarms, Evidence
from harness.watchers.canary import Probe, View
from harness.watchers.currentop import GetMore, Lookup
from harness.watchers.inside import Op, running
from harness.watchers.overlap import OverlapAlarm, OverlapAlarms, Subject
from harness.watchers.progress import StreamState
from harness.watchers.watched import WatchedMember
from harness.watching.reading import Reading
from harness.watching.streams import Stream, Streams
from harness.watching.writes import piled

SOURCE: Final = "watch"
PROBE: Final[Probe] = "currentOp"

SILENT_STREAM: Final = "silent_stream"
WRITE_COPIES: Final = "write_copies"
KINDS: Final = {"alarm": SILENT_STREAM, "overlap.alarm": WRITE_COPIES}
"""Kinds of alarms, by the kind of their event."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A member of which there is no answer. `owed`: a question is out; `since` and `asked` in ns."""

    why: str
    since: int
    owed: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known after a look. `requests`: those of writes that have copies, `copies` at once of the write that has
    most. `members`: all that were to be asked, None where one answered, else why not."""

    at: int
    streams: Mapping[str, Stream] = field(default_factory=dict)
    hung: Sequence[GetMore] = ()
    copies: int = 0
    requests: Sequence[Op] = ()
    members: Mapping[str, str | None] = field(default_factory=dict)
    silent: Mapping[str, Alarm] = field(default_factory=dict)
    piles: Mapping[Subject, OverlapAlarm] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[str]:
        """Streams by how they fare."""
        return Counter(one.fares for one in self.streams.values())

    @property
    def unseen(self) -> dict[str, str]:
        return {name: why for name, why in self.members.items() if why is not None}

    @property
    def wrong(self) -> bool:
        return bool(self.silent or self.piles)


class Judge:
    """`past`: seconds beyond its maxTimeMS from which a getMore hangs. `every`: seconds between looks, which the alarms
    on copies tell."""

    def __init__(self, members: Sequence[WatchedMember], *, past: float, every: float) -> None:
        self._streams = Streams(past)
        self._alarms = Alarms(members, threshold=past)
        self._overlap = OverlapAlarms()
        self._every = every
        self._past = past

    def judge(
        self, readings: Mapping[str, Reading], unseen: Mapping[str, Unseen], fresh: Sequence[str], now: int
    ) -> tuple[Picture, list[Event]]:
        """`readings` by member, of those that are `unseen` the last one before; `now` in ns."""
        unheard = {name for name, one in unseen.items() if one.owed}
        # What was in a member whose connection broke is gone with it, or is seen again in a moment.
        readings = {name: one for name, one in readings.items() if name not in unseen or name in unheard}
        sessions = {own: name for reading in readings.values() for own, name in reading.sessions.items()}
        streams = self._streams.judge(readings, unheard, fresh, now)
        for lookup in self._orphans(readings, sessions):
            sessions[lookup.stream] = name = readings[lookup.member].internal[lookup.stream]
            streams[name] = Stream(name, "silent", lookup.seconds, (), 0)
        hung = [
            getmore
            for reading in readings.values()
            for getmore in reading.getmores
            if getmore.stream in streams
            and streams[getmore.stream].fares == "silent"
            and getmore.overdue > self._past
            and getmore.opid not in reading.scanning
        ]
        states = {
            name: StreamState(name, "silent", now - int(one.silent_for * NS), 0, 0)
            for name, one in streams.items()
            if one.fares == "silent"
        }
        raised, completed, cleared = self._alarms.judge(
            states, self._evidence(readings, sessions, hung, unseen, now), now
        )
        ops = piled([one for reading in readings.values() for one in reading.writes])
        copies = {name: [op for op in ops if op.member == name] for name in readings}
        piles, over = self._overlap.judge(copies, unheard, now, self._every)
        picture = Picture(
            at=now,
            streams=streams,
            hung=hung,
            copies=max(running(ops).values(), default=0),
            requests=ops,
            members={**dict.fromkeys(readings), **{name: one.why for name, one in unseen.items()}},
            silent=dict(self._alarms.open),
            piles=dict(self._overlap.open),
        )
        events = [
            *(_event(now, "alarm", **alarm.fields()) for alarm in raised),
            *(_event(now, "alarm", **alarm.fields(), update=True) for alarm in completed),
            *(_event(now, "alarm.cleared", stream=stream) for stream in cleared),
            *(_event(now, "overlap.alarm", **pile.fields()) for pile in piles),
            *(_event(now, "overlap.cleared", **episode.fields()) for episode in over),
        ]
        return picture, events

    def _orphans(self, readings: Mapping[str, Reading], sessions: Mapping[str, str]) -> list[Lookup]:
        """Lookups that hang although no cursor of their stream is seen: it is on a member that is not."""
        return [
            one
            for reading in readings.values()
            for one in reading.lookups
            if one.seconds > self._past and one.stream not in sessions and one.stream in reading.internal
        ]

    def _evidence(
        self,
        readings: Mapping[str, Reading],
        sessions: Mapping[str, str],
        hung: Sequence[GetMore],
        unseen: Mapping[str, Unseen],
        now: int,
    ) -> Evidence:
        views: dict[str, dict[Probe, View]] = {
            name: {PROBE: View(False, (now - one.since) / NS, one.why, one.owed, now, one.since)}
            for name, one in unseen.items()
        }
        views |= {name: {PROBE: View(True, 0.0, None, False, now, 0)} for name in readings if name not in unseen}
        return Evidence(
            getmores=[replace(one, at=now) for one in hung],
            lookups=[
                replace(one, stream=sessions[one.stream])
                for reading in readings.values()
                for one in reading.lookups
                if one.stream in sessions
            ],
            towards={name: reading.towards for name, reading in readings.items() if reading.towards},
            views=views,
        )


def _event(now: int, kind: str, **fields: object) -> Event:
    return Event(now, round(time.time(), 6), SOURCE, kind, fields)
