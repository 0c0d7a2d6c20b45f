"""A history folded once into the columns the checkers need: writes, streams, faults, phases.

It is read in the order in which it was recorded; a checker gets the columns (columns.py, attempts.py), never the
events. It judges nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from harness.checkers.attempts import Attempts
from harness.checkers.columns import FAILED, OK, UNKNOWN, Answers, Fault, GetMore, Key, Stream, Writes
from harness.checkers.routed import RoutedOps
from harness.history import Event, HistoryError

if TYPE_CHECKING:
    from harness.checkers.overlap import Counted
    from harness.checkers.silences import Silence


class Digest:
    """All of a history, folded. Feed it with `see`, in order."""

    def __init__(self) -> None:
        self.writes = Writes()
        self.attempts = Attempts()
        self.routed = RoutedOps()
        self.streams: dict[str, Stream] = {}
        self.faults: dict[str, Fault] = {}
        self.phases: list[tuple[int, str]] = []
        self.lags: list[tuple[int, float]] = []
        self.hellos: list[tuple[int, float]] = []
        """Answered hellos of the canaries: when, seconds."""
        self.probes: dict[tuple[str, str], Answers] = defaultdict(Answers)
        """Answers to the canaries, by member and probe."""
        self.peers: dict[tuple[str, str, str], Answers] = defaultdict(Answers)
        """How members see each other: by who looks, at whom, and how (heartbeats or monitor)."""
        self.pools: dict[str, list[Event]] = defaultdict(list)
        """By looking-up member: connections in use towards others, observations with at least one."""
        self.selections: list[Event] = []
        self.usages: list[Event] = []
        self.census: list[tuple[Key, int]] | None = None
        """The documents at the end, with their sequences; None: nobody looked."""
        self.started: dict[str, Any] | None = None
        self.ended: Event | None = None
        self.events = 0
        self.end = 0
        """Time of the last event."""
        self.silences: dict[str, list[Silence]] = {}
        """By stream, once worked out (`silences.silences`), of the whole history: several checkers ask for them."""
        self.counted: list[Counted] | None = None
        """What each logical write came to, once worked out (`overlap.counts_of`): several checkers ask for it."""
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
            "canary": self._canary,
            "peers": self._peers,
            "selection": self.selections.append,
            "usage": self.usages.append,
            "fault.opened": self._fault_opened,
            "fault.proven": self._fault_proven,
            "fault.unproven": self._fault_unproven,
            "fault.healed": self._fault_healed,
            "fault.not_healed": self._fault_not_healed,
            "fault.recovered": self._fault_recovered,
            "census": self._census,
            **self.attempts.seers,
            **self.routed.seers,
        }

    def see(self, event: Event) -> None:
        self.events += 1
        self.end = event.t
        seer = self._seers.get(event.kind)
        if seer is None:
            return
        try:
            seer(event)
        except (KeyError, TypeError) as error:
            raise HistoryError(
                f"event {self.events} of the history, {event.kind} at {event.t} ns: "
                f"expected the fields that kind has, found {sorted(event.fields)}"
            ) from error

    def phase(self, name: str, after: int = -1) -> int | None:
        """When the phase was first entered, at or after a time; None: it was not."""
        return next((t for t, entered in self.phases if entered == name and t >= after), None)

    def set_of(self, member: str) -> str | None:
        """The set of a member that streams look up on, as the settled selection has it; None where it is in none."""
        return next((one["set"] for one in self.selections if member in (one["member"], *one["window"])), None)

    def _run_started(self, event: Event) -> None:
        self.started = event.fields

    def _run_ended(self, event: Event) -> None:
        self.ended = event

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

    def _peers(self, event: Event) -> None:
        for name in event["healthy"]:
            self.peers[event["member"], name, event.source].add(event.t, True)
        for name in event["failing"]:
            self.peers[event["member"], name, event.source].add(event.t, False)

    def _canary(self, event: Event) -> None:
        self.probes[event["member"], event["probe"]].add(event.t, bool(event["ok"]))
        if event["probe"] == "hello" and event["ok"]:
            self.hellos.append((event.t, event["seconds"]))

    def _fault_opened(self, event: Event) -> None:
        self.faults[event["id"]] = Fault(event["id"], event["fault"], event.get("target"), event.t)
        fault = self.faults[event["id"]]
        fault.options, fault.spares_health = tuple(event.get("options") or ()), event.get("spares_health")

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

    def _fault_not_healed(self, event: Event) -> None:
        self._fault(event).not_healed = event.get("reason") or "no reason given"

    def _census(self, event: Event) -> None:
        self.census = [(key, seq) for key, seq in event["documents"]]

    def _fault_recovered(self, event: Event) -> None:
        fault = self._fault(event)
        if fault.recovered < 0:
            fault.recovered, fault.recovery_seconds = event.t, event.get("seconds")


def fold(events: Iterable[Event]) -> Digest:
    digest = Digest()
    for event in events:
        digest.see(event)
    return digest
