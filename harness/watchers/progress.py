"""Tells silent from quiet: a stream is only silent while it owes something that was majority-acknowledged.

Pure: fed with the events of the history and asked at a time; knows no cluster, no clock and no cause of a silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from harness.history import Event

State = Literal["quiet", "delivering", "lagging", "silent"]

THRESHOLD: Final = 3.0
"""Seconds without a delivery, while something is owed, after which a stream is suspected silent."""

LATE: Final = 2.0
"""Seconds from acknowledgement to delivery past which a stream lags. A stream merged over shards waits for the
promise of the idle ones, which comes with the periodic no-op: up to 1 s is its normal."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What is known of a stream now. `since` in ns of run time: for silent, the last delivery or the acknowledgement
    of the oldest mark, whichever is later; for the others, when the state was entered."""

    stream: str
    state: State
    since: int
    outstanding: int
    events: int
    quiet_for: float
    """Seconds since the last delivery, or since it was opened if there was none."""


@dataclass(slots=True)
class _Stream:
    opened: int
    state: State = "quiet"
    since: int = 0
    events: int = 0
    heard: int = 0
    """When something was last delivered; when it was opened, before that."""
    late_at: int | None = None
    """When a mark was last delivered late."""
    newest: dict[Any, int] = field(default_factory=dict)
    """Per key the highest sequence delivered: an event may come before its write's acknowledgement."""
    owed: dict[Any, deque[tuple[int, int]]] = field(default_factory=dict)
    """Per key the acknowledged, undelivered (seq, acknowledged at)."""
    outstanding: int = 0
    told: bool = False
    """Whether a state was reported yet; the first one always is."""

    def oldest(self) -> int | None:
        return min((marks[0][1] for marks in self.owed.values()), default=None)


class Progress:
    """Per stream the marks it owes. A mark is a write that was invoked after the stream was opened and is ok."""

    def __init__(self, *, threshold: float = THRESHOLD, late: float = LATE) -> None:
        self.threshold = threshold
        self.late = late
        self._streams: dict[str, _Stream] = {}
        self._invoked: dict[Any, int] = {}

    def feed(self, event: Event) -> None:
        """Take in one event of the history; kinds it has no use for are passed over."""
        match event.kind:
            case "stream.event":
                self._delivered(event)
            case "write.invoked":
                self._invoked[event["key"]] = event.t
            case "write.ok":
                self._acknowledged(event)
            case "write.failed" | "write.unknown":
                self._invoked.pop(event["key"], None)
            case "stream.opened":
                name = event["stream"]
                if name not in self._streams:
                    self._streams[name] = _Stream(opened=event.t, since=event.t, heard=event.t)
            case "stream.closed" if event.get("reason") == "end of run":
                self._streams.pop(event["stream"], None)
            case _:
                pass

    @property
    def outstanding(self) -> int:
        """Marks not delivered yet, over all streams."""
        return sum(stream.outstanding for stream in self._streams.values())

    def states(self, now: int) -> dict[str, StreamState]:
        """The states as of the last `judge`, with figures as of `now`."""
        return {
            name: StreamState(
                name, one.state, one.since, one.outstanding, one.events, quiet_for=(now - one.heard) / 1e9
            )
            for name, one in self._streams.items()
        }

    def nearest_silence(self, now: int) -> float:
        """Seconds that the stream nearest to silence has owed without delivering, nothing taken off; 0.0 if none."""
        return max((self._owing(one, now) for one in self._streams.values()), default=0.0)

    def judge(self, now: int, excused: Callable[[int, int], float]) -> list[StreamState]:
        """The streams whose state changed. `excused(since, now)`: seconds of that span that prove nothing."""
        changed = []
        for name, one in self._streams.items():
            state, since = self._state(one, now, excused)
            if state != one.state or not one.told:
                one.state, one.since, one.told = state, since, True
                changed.append(
                    StreamState(name, state, since, one.outstanding, one.events, quiet_for=(now - one.heard) / 1e9)
                )
        return changed

    def _state(self, one: _Stream, now: int, excused: Callable[[int, int], float]) -> tuple[State, int]:
        oldest = one.oldest()
        recently = now - int(self.threshold * 1e9)
        if oldest is None:
            if one.heard <= recently or one.events == 0:
                return "quiet", now
        else:
            since = max(oldest, one.heard)
            silent_for = (now - since) / 1e9
            if silent_for >= self.threshold and silent_for - excused(since, now) >= self.threshold:
                return "silent", since
            if one.state == "silent" and one.heard <= one.since:
                # Still nothing delivered; what is excused may have grown since, but a silence ends with a delivery.
                return "silent", one.since
            if (now - oldest) / 1e9 > self.late and one.heard > oldest:
                return "lagging", now
        if one.late_at is not None and one.late_at > recently:
            return "lagging", now
        return "delivering", now

    def _owing(self, one: _Stream, now: int) -> float:
        oldest = one.oldest()
        return 0.0 if oldest is None else (now - max(oldest, one.heard)) / 1e9

    def _delivered(self, event: Event) -> None:
        one = self._streams.get(event["stream"])
        if one is None:
            return
        one.events += 1
        one.heard = event.t
        key, seq = event["key"], event["seq"]
        if seq is None:
            return
        one.newest[key] = max(seq, one.newest.get(key, seq))
        marks = one.owed.get(key)
        while marks and marks[0][0] <= seq:
            _, acknowledged = marks.popleft()
            one.outstanding -= 1
            if (event.t - acknowledged) / 1e9 > self.late:
                one.late_at = event.t
        if marks is not None and not marks:
            del one.owed[key]

    def _acknowledged(self, event: Event) -> None:
        key, seq = event["key"], event["seq"]
        invoked = self._invoked.pop(key, event.t)
        for one in self._streams.values():
            if invoked >= one.opened and one.newest.get(key, seq - 1) < seq:
                one.owed.setdefault(key, deque()).append((seq, event.t))
                one.outstanding += 1
