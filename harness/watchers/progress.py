"""Tells silent from quiet: a stream is only silent while it owes something that was majority-acknowledged.

Pure: fed with the events of the history and asked at a time; knows no cluster, no clock and no cause of a silence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from harness.history import END_OF_RUN, Event

State = Literal["quiet", "delivering", "lagging", "silent"]

THRESHOLD: Final = 3.0
"""Seconds without a delivery, while something is owed, after which a stream is suspected silent."""

LATE: Final = 2.0
"""Seconds from when a mark is due to its delivery past which a stream lags."""

PROMISE: Final = 12.0
"""Seconds after which a mark is due though another shard is idle: the default no-op interval, and its way here."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What is known of a stream now. `since` in ns of run time: for silent, the last delivery or when the oldest mark
    fell due, whichever is later; for the others, when the state was entered."""

    stream: str
    state: State
    since: int
    outstanding: int
    events: int


@dataclass(slots=True)
class _Mark:
    """An acknowledged write. Due at once on a single shard; a merged stream may only deliver it when every other
    shard has promised to send nothing older, by a later write or by its periodic no-op."""

    seq: int
    acknowledged: int
    promised: int
    """When it falls due at the latest."""
    due: int | None = None

    def due_by(self, now: int) -> int | None:
        if self.due is None and now >= self.promised:
            self.due = self.promised
        return self.due


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
    owed: dict[Any, deque[_Mark]] = field(default_factory=dict)
    """Per key the marks not delivered, oldest first."""
    outstanding: int = 0
    told: bool = False
    """Whether a state was reported yet; the first one always is."""

    def oldest(self, now: int) -> int | None:
        """When the first mark fell due that is still owed."""
        due = (marks[0].due_by(now) for marks in self.owed.values())
        return min((one for one in due if one is not None), default=None)


class Progress:
    """Per stream the marks it owes. A mark is a write that was invoked after the stream was opened and is ok.

    `shards` are those that the streams are merged over, written to or not, by the names that the writes have.
    """

    def __init__(
        self,
        *,
        threshold: float = THRESHOLD,
        late: float = LATE,
        promise: float = PROMISE,
        shards: Iterable[str] = (),
    ) -> None:
        self.threshold = threshold
        self.late = late
        self._promise = int(promise * 1e9)
        self._streams: dict[str, _Stream] = {}
        self._invoked: dict[Any, Event] = {}
        self._promised: dict[str, int] = dict.fromkeys(shards, 0)
        """Per shard when the latest of its acknowledged writes was invoked: all that was before has happened there."""
        self._not_due: dict[str, deque[_Mark]] = {}

    def feed(self, event: Event) -> None:
        """Take in one event of the history; kinds it has no use for are passed over."""
        match event.kind:
            case "stream.event":
                self._delivered(event)
            case "write.invoked":
                self._invoked[event["key"]] = event
                self._promised.setdefault(event["shard"], 0)
            case "write.ok":
                self._acknowledged(event)
            case "stream.opened":
                name = event["stream"]
                if name not in self._streams:
                    self._streams[name] = _Stream(opened=event.t, since=event.t, heard=event.t)
            case "stream.closed" if event.get("reason") == END_OF_RUN:
                self._streams.pop(event["stream"], None)
            case _:
                pass

    @property
    def outstanding(self) -> int:
        """Marks not delivered yet, over all streams."""
        return sum(stream.outstanding for stream in self._streams.values())

    def states(self) -> dict[str, StreamState]:
        """The states as of the last `judge`, with the figures of now."""
        return {
            name: StreamState(name, one.state, one.since, one.outstanding, one.events)
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
                changed.append(StreamState(name, state, since, one.outstanding, one.events))
        return changed

    def _state(self, one: _Stream, now: int, excused: Callable[[int, int], float]) -> tuple[State, int]:
        oldest = one.oldest(now)
        recently = now - int(self.threshold * 1e9)
        if oldest is None:
            if not one.outstanding and (one.heard <= recently or one.events == 0):
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
        oldest = one.oldest(now)
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
        while marks and marks[0].seq <= seq:
            due = marks.popleft().due_by(event.t)
            one.outstanding -= 1
            if due is not None and (event.t - due) / 1e9 > self.late:
                one.late_at = event.t
        if marks is not None and not marks:
            del one.owed[key]

    def _acknowledged(self, event: Event) -> None:
        key, seq = event["key"], event["seq"]
        invoked = self._invoked.pop(key, None)
        if invoked is None:
            return
        mark = _Mark(seq, event.t, event.t + self._promise)
        self._not_due.setdefault(invoked["shard"], deque()).append(mark)
        self._promised[invoked["shard"]] = max(invoked.t, self._promised[invoked["shard"]])
        self._fall_due(event.t)
        for one in self._streams.values():
            if invoked.t >= one.opened and one.newest.get(key, seq - 1) < seq:
                one.owed.setdefault(key, deque()).append(mark)
                one.outstanding += 1

    def _fall_due(self, now: int) -> None:
        """The marks for which every other shard has promised by now. On each shard they fall due in their order."""
        for shard, marks in self._not_due.items():
            promised = min((at for other, at in self._promised.items() if other != shard), default=now + 1)
            while marks and (marks[0].acknowledged < promised or marks[0].due_by(now) is not None):
                mark = marks.popleft()
                mark.due = mark.due or now
