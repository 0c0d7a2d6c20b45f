"""What a live view shows, as plain data, and how it is gathered from the events of a run. No terminal, no cluster."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.history import Event
from harness.measures import NS
from harness.report.sentences import alarms as told
from harness.report.sentences import sentence

WINDOW: Final = 5
"""Seconds over which a rate is taken."""
KEPT: Final = 100
"""Faults and alarms that are over kept, the last ones."""
WELL: Final = "answers"
OVER: Final = "over: "
"""How an alarm begins that is over."""

COUNTED: Final[Mapping[str, str]] = {
    "write.ok": "writes", "execution.ended": "executions", "stream.event": "events", "routed.ended": "operations",
}  # fmt: skip
"""Kinds whose rate is shown, and what they are called."""
ENDS: Final[Mapping[str, str]] = {
    "fault.proven": "proven", "fault.unproven": "NOT proven", "fault.healed": "healed",
    "fault.not_healed": "NOT HEALED", "fault.recovered": "recovered",
}  # fmt: skip
"""What becomes of a fault; a later one replaces an earlier one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`since` in seconds of run time: when it came to be as it is."""

    what: str
    stands: str
    since: float

    @property
    def acts(self) -> bool:
        return self.stands in ("opened", "proven")


@dataclass(frozen=True, slots=True)
class Scene:
    """One moment. `left`: seconds until the phase ends, where that is known; `now`: seconds of run time. Streams by
    state, members with what is wrong with each (`WELL`: nothing), the last faults, the alarms: at the end those that
    are open, before them those that are over. `rates` a second."""

    title: str = ""
    phase: str = "start"
    left: float | None = None
    now: float = 0.0
    streams: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    alarms: Sequence[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    copies: int = 0


class Rates:
    """How often each thing happens, over the last WINDOW seconds."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, Counter[str]]] = deque()
        self._names: list[str] = []

    def count(self, name: str, seconds: float, number: int = 1) -> None:
        if name not in self._names:
            self._names.append(name)
        if not self._seconds or self._seconds[-1][0] != int(seconds):
            self._seconds.append((int(seconds), Counter()))
        self._seconds[-1][1][name] += number
        while self._seconds[0][0] < int(seconds) - WINDOW:
            self._seconds.popleft()

    def at(self, seconds: float) -> dict[str, float]:
        """Of whole seconds: the one that goes on is left out."""
        whole = [counts for second, counts in self._seconds if int(seconds) - WINDOW <= second < int(seconds)]
        over = min(WINDOW, max(1, int(seconds)))
        return {name: sum(counts[name] for counts in whole) / over for name in self._names}


class Gathering:
    """Of the events of a run, as they come. It is fed by one thread and looked at by another."""

    def __init__(self) -> None:
        self.title = ""
        self._lock = threading.Lock()
        self._rates = Rates()
        self._streams: dict[str, str] = {}
        self._failing: dict[str, set[str]] = {}
        self._copies: dict[tuple[str, str | None], int] = {}
        self._faults: dict[str, Fault] = {}
        self._alarms: dict[object, Event] = {}
        self._over: dict[object, Event] = {}

    def feed(self, event: Event) -> None:
        with self._lock:
            self._take(event)

    def scene(self, phase: str, left: float | None, now: float) -> Scene:
        """`now` in seconds of run time."""
        with self._lock:
            return self._scene(phase, left, now)

    def _take(self, event: Event) -> None:
        if event.kind in COUNTED:
            self._rates.count(COUNTED[event.kind], event.seconds)
        match event.kind:
            case "stream.opened":
                self._streams.setdefault(event["stream"], "quiet")
            case "stream.state":
                self._streams[event["stream"]] = event["state"]
            case "stream.closed":
                self._streams.pop(event["stream"], None)
            case "canary":
                failing = self._failing.setdefault(event["member"], set())
                (failing.discard if event["ok"] else failing.add)(event["probe"])
            case "copies":
                self._sampled(event)
            case "fault.opened":
                what = " ".join([event["fault"], *event.get("options", [])])
                self._note_fault(event, f"{what} on {event['target']}", "opened")
            case "fault.proven" | "fault.unproven" | "fault.healed" | "fault.not_healed" | "fault.recovered":
                if (known := self._faults.get(str(event["id"]))) is not None:
                    self._note_fault(event, known.what, ENDS[event.kind])
            case "alarm":
                self._alarms[event["stream"]] = event
            case "overlap.alarm":
                self._alarms[event["namespace"], event["write"]] = event
            case "alarm.cleared":
                self._end(event["stream"])
            case "overlap.cleared":
                self._end((event["namespace"], event["write"]))

    def _scene(self, phase: str, left: float | None, now: float) -> Scene:
        return Scene(
            title=self.title,
            phase=phase,
            left=left,
            now=now,
            streams=Counter(self._streams.values()),
            members={
                name: f"no {', '.join(sorted(failing))}" if failing else WELL
                for name, failing in sorted(self._failing.items())
            },
            faults=list(self._faults.values())[-KEPT:],
            alarms=[*(f"{OVER}{line}" for line in _lines(self._over)), *_lines(self._alarms)],
            rates=self._rates.at(now),
            copies=sum(self._copies.values()),
        )

    def _sampled(self, event: Event) -> None:
        failing = self._failing.setdefault(event["member"], set())
        if event["ops"] is None:
            failing.add("answer")
            return
        failing.discard("answer")
        self._copies[event["member"], event["namespace"]] = int(event["copies"])

    def _note_fault(self, event: Event, what: str, stands: str) -> None:
        self._faults[str(event["id"])] = Fault(what, stands, event.t / NS)

    def _end(self, subject: object) -> None:
        if (event := self._alarms.pop(subject, None)) is not None:
            self._over.pop(subject, None)
            self._over[subject] = event
        while len(self._over) > KEPT:
            del self._over[next(iter(self._over))]


def _lines(alarms: Mapping[object, Event]) -> list[str]:
    """Streams with one cause in one line."""
    silent = [one for one in alarms.values() if one.kind == "alarm"]
    return [*told(silent), *(sentence(one) or "" for one in alarms.values() if one.kind != "alarm")]
