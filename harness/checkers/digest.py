"""A history folded once into the columns the checkers need: writes, streams, faults, phases.

Times stay run time in ns. Compact on purpose (arrays, not event objects): a million events must fit and be quick.
It judges nothing, and needs nothing but the events, in the order in which they were recorded.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.history import END_OF_RUN, Event

if TYPE_CHECKING:
    from harness.checkers.silences import Silence

NEVER: Final = 0
"""An event told of this write, the writer never did."""
INVOKED: Final = 1
OK: Final = 2
FAILED: Final = 3
UNKNOWN: Final = 4

Key = str | int


class Writes:
    """Every logical write, by index in the order first heard of; one column per thing known of it."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        """The distinct document keys; `key` holds positions in it."""
        self.key = array("l")
        self.seq = array("q")
        self.shard: list[str | None] = []
        self.invoked = array("q")
        self.ended = array("q")
        """When the outcome was known; of an acknowledged write, when it was acknowledged. -1: not ended."""
        self.outcome = bytearray()
        self.acknowledged = array("l")
        """Indexes in the order of acknowledgement."""
        self._known: dict[Key, tuple[int, dict[int, int]]] = {}

    def __len__(self) -> int:
        return len(self.outcome)

    def index(self, key: Key, seq: int) -> int:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (len(self.keys), {})
            self.keys.append(key)
        position, indexes = known
        index = indexes.get(seq)
        if index is None:
            index = indexes[seq] = len(self.outcome)
            self.key.append(position)
            self.seq.append(seq)
            self.shard.append(None)
            self.invoked.append(-1)
            self.ended.append(-1)
            self.outcome.append(NEVER)
        return index

    def invoke(self, event: Event) -> None:
        index = self.index(event["key"], event["seq"])
        self.shard[index] = event.get("shard")
        if self.invoked[index] < 0:
            self.invoked[index] = event.t
        if self.outcome[index] in (NEVER, FAILED):  # sent again after a refusal: open anew
            self.outcome[index] = INVOKED

    def end(self, event: Event, outcome: int) -> None:
        """An acknowledgement outweighs everything; an earlier unknown outweighs a refusal of the same write."""
        index = self.index(event["key"], event["seq"])
        before = self.outcome[index]
        if before == OK or (before == UNKNOWN and outcome == FAILED):
            return
        self.outcome[index] = outcome
        self.ended[index] = event.t
        if outcome == OK:
            self.acknowledged.append(index)

    def name(self, index: int) -> str:
        return f"(key {self.keys[self.key[index]]!r}, seq {self.seq[index]})"


@dataclass(slots=True)
class GetMore:
    """One hanging getMore as observed: the longest it was seen to run."""

    member: str
    opid: Any
    source: str
    max_time_ms: int | None
    seconds: float
    last_seen: int

    @property
    def past_max_time(self) -> bool:
        return self.seconds * 1000 > (self.max_time_ms or 1000) + 1000


@dataclass(slots=True)
class Stream:
    """What one change stream's consumer saw."""

    name: str
    opened: int = -1
    """First opening; -1: events came without one."""
    reopened_anew: list[int] = field(default_factory=list)
    """Later openings that did not resume: what came in between is lost to the consumer."""
    closed: int = -1
    closed_reason: str | None = None
    delivered: array[int] = field(default_factory=lambda: array("l"))
    """Indexes of writes, in the order of delivery."""
    delivered_at: array[int] = field(default_factory=lambda: array("q"))
    other_events: int = 0
    """Events that are no marks of ours (no seq)."""
    empty_at: array[int] = field(default_factory=lambda: array("q"))
    errors: list[Event] = field(default_factory=list)
    resumes: list[Event] = field(default_factory=list)
    alarms: list[Event] = field(default_factory=list)
    getmores: dict[tuple[str, Any, str], GetMore] = field(default_factory=dict)
    lookups: list[Event] = field(default_factory=list)

    @property
    def closed_early(self) -> bool:
        return self.closed >= 0 and self.closed_reason != END_OF_RUN


@dataclass(slots=True)
class Fault:
    """One fault: times of its life, -1 where that did not happen."""

    id: str
    fault: str
    target: Any
    opened: int
    proven: int = -1
    evidence: Any = None
    unproven: str | None = None
    healed: int = -1
    recovered: int = -1
    recovery_seconds: float | None = None


class Digest:
    """All of a history, folded. Feed it with `see`, in order."""

    def __init__(self) -> None:
        self.writes = Writes()
        self.streams: dict[str, Stream] = {}
        self.faults: dict[str, Fault] = {}
        self.phases: list[tuple[int, str]] = []
        self.lags: list[tuple[int, float]] = []
        self.pools: dict[str, list[Event]] = defaultdict(list)
        """By looking-up member: connections in use towards others, observations with at least one."""
        self.started: dict[str, Any] | None = None
        self.ended: dict[str, Any] | None = None
        self.events = 0
        self.end = 0
        """Time of the last event."""
        self.silences: dict[str, list[Silence]] = {}
        """By stream, once worked out (`silences.silences`): several checkers ask for them."""
        self._seers: dict[str, Callable[[Event], None]] = {
            "run.started": self._run_started,
            "run.ended": self._run_ended,
            "phase": lambda event: self.phases.append((event.t, event["name"])),
            "write.invoked": self.writes.invoke,
            "write.ok": lambda event: self.writes.end(event, OK),
            "write.failed": lambda event: self.writes.end(event, FAILED),
            "write.unknown": lambda event: self.writes.end(event, UNKNOWN),
            "stream.opened": self._stream_opened,
            "stream.event": self._stream_event,
            "stream.empty": lambda event: self._stream(event).empty_at.append(event.t),
            "stream.error": lambda event: self._stream(event).errors.append(event),
            "stream.resumed": lambda event: self._stream(event).resumes.append(event),
            "stream.closed": self._stream_closed,
            "alarm": lambda event: self._stream(event).alarms.append(event),
            "getmore": self._getmore,
            "lookup": self._lookup,
            "pool": self._pool,
            "loop.lag": lambda event: self.lags.append((event.t, event["seconds"])),
            "fault.opened": self._fault_opened,
            "fault.proven": self._fault_proven,
            "fault.unproven": self._fault_unproven,
            "fault.healed": self._fault_healed,
            "fault.recovered": self._fault_recovered,
        }

    def see(self, event: Event) -> None:
        self.events += 1
        self.end = event.t
        if self.silences:
            self.silences.clear()
        seer = self._seers.get(event.kind)
        if seer is not None:
            seer(event)

    def phase(self, name: str, after: int = -1) -> int | None:
        """When the phase was first entered, at or after a time; None: it was not."""
        return next((t for t, entered in self.phases if entered == name and t >= after), None)

    def _run_started(self, event: Event) -> None:
        self.started = event.fields

    def _run_ended(self, event: Event) -> None:
        self.ended = event.fields

    def _stream(self, event: Event) -> Stream:
        name = event["stream"]
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(name)
        return stream

    def _stream_opened(self, event: Event) -> None:
        stream = self._stream(event)
        stream.closed, stream.closed_reason = -1, None
        if stream.opened < 0:
            stream.opened = event.t
        elif not event.get("resumed"):
            stream.reopened_anew.append(event.t)

    def _stream_event(self, event: Event) -> None:
        stream = self._stream(event)
        seq = event.get("seq")
        if seq is None:
            stream.other_events += 1
            return
        stream.delivered.append(self.writes.index(event["key"], seq))
        stream.delivered_at.append(event.t)

    def _stream_closed(self, event: Event) -> None:
        stream = self._stream(event)
        stream.closed, stream.closed_reason = event.t, event.get("reason")

    def _getmore(self, event: Event) -> None:
        if event.get("stream") is None:
            return
        seen = GetMore(
            event["member"],
            event.get("opid"),
            event.source,
            event.get("max_time_ms"),
            event["seconds"],
            event.t,
        )
        known = self._stream(event).getmores
        identity = (seen.member, str(seen.opid), seen.source)
        if identity not in known or known[identity].seconds <= seen.seconds:
            known[identity] = seen

    def _lookup(self, event: Event) -> None:
        if event.get("stream") is not None:
            self._stream(event).lookups.append(event)

    def _pool(self, event: Event) -> None:
        if event.get("in_use"):
            self.pools[event["member"]].append(event)

    def _fault_opened(self, event: Event) -> None:
        self.faults[event["id"]] = Fault(event["id"], event["fault"], event.get("target"), event.t)

    def _fault(self, event: Event) -> Fault:
        """A fault that was never opened in this record counts as opened when first heard of."""
        return self.faults.setdefault(event["id"], Fault(event["id"], event.get("fault", "?"), None, event.t))

    def _fault_proven(self, event: Event) -> None:
        fault = self._fault(event)
        if fault.proven < 0:
            fault.proven, fault.evidence = event.t, event.get("evidence")

    def _fault_unproven(self, event: Event) -> None:
        self._fault(event).unproven = event.get("reason") or "no reason given"

    def _fault_healed(self, event: Event) -> None:
        fault = self._fault(event)
        if fault.healed < 0:
            fault.healed = event.t

    def _fault_recovered(self, event: Event) -> None:
        fault = self._fault(event)
        if fault.recovered < 0:
            fault.recovered, fault.recovery_seconds = event.t, event.get("seconds")


def fold(events: Iterable[Event]) -> Digest:
    digest = Digest()
    for event in events:
        digest.see(event)
    return digest
