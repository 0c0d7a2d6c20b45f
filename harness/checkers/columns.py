"""The columns that a history is folded into: all writes, and per stream and fault what is known of it.

Arrays, not event objects: a million events must fit and be quick. Times are run time in ns. Nothing is judged here.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, Final

from harness.history import END_OF_RUN, Event
from harness.measures import NS, overdue

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
    def began(self) -> int:
        """Run time in ns."""
        return self.last_seen - int(self.seconds * NS)

    @property
    def overdue(self) -> float:
        """Seconds past its maxTimeMS."""
        return overdue(self.seconds, self.max_time_ms)


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
class Answers:
    """Looks at one thing: when, and whether it was well."""

    at: array[int] = field(default_factory=lambda: array("q"))
    good: bytearray = field(default_factory=bytearray)

    def add(self, t: int, good: bool) -> None:
        self.at.append(t)
        self.good.append(good)

    def longest_away(self, start: int, end: int) -> int:
        """The longest time within a span, in ns, from a look that was not well to the next that was."""
        longest, since = 0, None
        for t, good in zip(self.at, self.good, strict=True):
            if good and since is not None:
                longest = max(longest, min(t, end) - max(since, start))
            since = None if good else t if since is None else since
        if since is not None:
            longest = max(longest, end - max(since, start))
        return longest


Looks = dict[str, Answers]
"""By the member who looked."""


@dataclass(slots=True)
class Fault:
    """One fault: times of its life, -1 where that did not happen."""

    id: str
    fault: str
    target: Any
    opened: int
    options: tuple[str, ...] = ()
    spares_health: bool | None = None
    """Whether the fault leaves its target healthy to all but its readers; None: not recorded."""
    proven: int = -1
    evidence: Any = None
    unproven: str | None = None
    healed: int = -1
    not_healed: str | None = None
    """Why not, as it was tried last."""
    recovered: int = -1
    recovery_seconds: float | None = None
