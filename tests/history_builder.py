"""Hand-made histories for the checkers' tests: times in seconds, lines put in order at the end.

It knows the kinds of `harness.history`; which checker judges one is the test's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from harness.checkers.context import Context
from harness.checkers.digest import Digest, fold
from harness.history import COMPLETED, END_OF_RUN, Event

OPENED, PROVEN, RELEASE, HEALED, RECOVERED = 6.0, 6.1, 18.1, 18.2, 19.0
"""When the fault of `a_run` is opened, and so on, in seconds of run time: a hold of 12 s."""


Found_co = TypeVar("Found_co", covariant=True)


class Checker(Protocol[Found_co]):
    """A module of `harness.checkers` that has a guarantee for a subject."""

    def examine(self, digest: Digest, context: Context, /) -> Found_co: ...


def judged(checker: Checker[Found_co], events: Iterable[Event]) -> Found_co:
    """What one checker says of a history, in the context that the history itself records."""
    digest = fold(events)
    return checker.examine(digest, Context.of(digest.started or {}))


class History:
    """Add lines in any order; `events()` gives them in the order of time, those of one time as they were added."""

    def __init__(self) -> None:
        self._lines: list[Event] = []

    def add(self, t: float, kind: str, source: str = "test", **fields: Any) -> None:
        self._lines.append(Event(round(t * 1e9), 1.7e9 + t, source, kind, fields))

    def events(self) -> list[Event]:
        return sorted(self._lines, key=lambda event: event.t)

    def write(
        self, t: float, key: str, seq: int, *, outcome: str | None = "ok", after: float = 0.01, shard: str = "shard0"
    ) -> None:
        """A write, invoked at `t`; its outcome is known `after` seconds, None: never."""
        self.add(t, "write.invoked", key=key, seq=seq, shard=shard)
        if outcome is not None:
            self.add(t + after, f"write.{outcome}", key=key, seq=seq)

    def event(self, t: float, stream: str, key: str, seq: int | None) -> None:
        self.add(t, "stream.event", stream=stream, key=key, seq=seq, op="update")

    def opened(self, t: float, stream: str, *, resumed: bool = False) -> None:
        self.add(t, "stream.opened", stream=stream, resumed=resumed)

    def closed(self, t: float, stream: str, reason: str = END_OF_RUN) -> None:
        self.add(t, "stream.closed", stream=stream, reason=reason)

    def phases(self, **phases: float) -> None:
        """`bring_up=0.0, load=1.0, ..`"""
        for name, t in phases.items():
            self.add(t, "phase", name=name.replace("_", "-"))

    def fault(
        self,
        *,
        opened: float = OPENED,
        proven: float | None = PROVEN,
        healed: float | None = HEALED,
        recovered: float | None = RECOVERED,
    ) -> None:
        self.add(opened, "fault.opened", id="f1", fault="freeze", target="shard0-2")
        if proven is not None:
            self.add(proven, "fault.proven", id="f1", evidence={"state": "T"})
        if healed is not None:
            self.add(healed, "fault.healed", id="f1")
        if recovered is not None:
            self.add(recovered, "fault.recovered", id="f1", seconds=recovered - (healed or opened))


Span = tuple[float, float]


def a_run(
    *,
    streams: Sequence[str] = ("s1", "s2"),
    silent: Mapping[str, Sequence[Span]] | None = None,
    writes_until: float = 20.0,
    no_writes: Sequence[Span] = (),
    every: float = 0.1,
    fault: bool = True,
    parameters: Mapping[str, Any] | None = None,
    expected: Iterable[str] = ("stalled",),
    ended: str | None = COMPLETED,
    proven: float | None = PROVEN,
    healed: float | None = HEALED,
    recovered: float | None = RECOVERED,
) -> History:
    """A whole run: writes to four documents of two shards from 1.2 s on, delivered after 20 ms except in silences.

    What a stream missed in a silence comes right at its end. The fault is held from 6.1 to 18.1 s; check at 25 s.
    """
    history = History()
    given = {"threshold": 3.0, "hold": 12.0, "shards": 2, "fault": "freeze" if fault else "none", **(parameters or {})}
    history.add(0.0, "run.started", scenario="update-lookup-stall", parameters=given, expected=list(expected))
    history.phases(bring_up=0.1, load=0.9, settle=1.2, hold=PROVEN, release=RELEASE, **{"break": OPENED})
    history.phases(recover=HEALED + 0.1, check=25.0)
    if fault:
        history.fault(proven=proven, healed=healed, recovered=recovered)
    for stream in streams:
        history.opened(1.0, stream)
        history.closed(25.2, stream)
    for number in range(round((writes_until - 1.2) / every)):
        t = 1.2 + number * every
        if any(start <= t < end for start, end in no_writes):
            continue
        shard = f"shard{number % 2}"
        key, seq = f"{shard}-k{number % 4 // 2}", number // 4
        history.write(t, key, seq, shard=shard)
        for stream in streams:
            delivered = t + 0.02
            for start, end in (silent or {}).get(stream, ()):
                if start <= delivered < end:
                    delivered = end + number * 1e-6
            history.event(delivered, stream, key, seq)
    if ended is not None:
        history.add(25.5, "run.ended", reason=ended)
    return history


def without(events: Iterable[Event], kind: str, **fields: Any) -> list[Event]:
    """The history without the lines of that kind and those fields; there must be at least one."""
    events = list(events)
    kept = [
        event
        for event in events
        if event.kind != kind or any(event.get(name) != value for name, value in fields.items())
    ]
    assert len(kept) < len(events), f"no {kind} with {fields} in this history"
    return kept
