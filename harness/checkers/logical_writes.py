"""A logical write: its executions, what each sent, what of it ran in the engine, by each source apart.

Plain data, and what follows from it alone. Times of events are run time in ns, those that another clock gave (tap, log)
seconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.history import Event

Transaction = tuple[str | None, int | None]
"""lsid and txnNumber."""
Part = tuple[str, Transaction]


def part(command: str, transaction: Transaction) -> Part:
    """Which command of its execution a request belongs to: a bulk has several, and each is resent by itself."""
    return command, transaction if transaction[1] is not None else (None, None)


@dataclass(slots=True)
class Send:
    """One request as the driver wrote it. `ok` is None as long as nothing came of it."""

    t: int
    operation: int
    transaction: Transaction
    command: str
    host: str
    ended: int = -1
    ok: bool | None = None
    code: int | None = None
    labels: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        return part(self.command, self.transaction)


@dataclass(frozen=True, slots=True)
class Tapped:
    """What the tap read of one execution: `most` at once, `now` in flight as it was read, times of first and last.

    In flight ends with the connection: what a driver no longer waits for does not count as at once here.
    """

    total: int
    most: int
    now: int
    unanswered: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Ran:
    """One request as the log of a member has it; see `watchers.logged.Logged`."""

    member: str
    transaction: Transaction
    command: str
    inside: bool
    executed: bool
    changed: int
    """Documents that it inserted, modified, upserted or deleted. Of what failed inside the log does not say."""
    code: int | None
    began: float
    ended: float

    @property
    def part(self) -> Part:
        return part(self.command, self.transaction)


@dataclass(slots=True)
class Execution:
    """One run of the application for a logical write. Times -1 where that is not recorded."""

    number: int
    consumer: str | None = None
    begun: int = -1
    ended: int = -1
    outcome: str | None = None
    acknowledged: bool = False
    """The driver was told what it changed: not so with w:0."""
    code: int | None = None
    labels: tuple[str, ...] = ()
    sends: list[Send] = field(default_factory=list)
    tapped: Tapped | None = None
    ran: list[Ran] = field(default_factory=list)

    @property
    def parts(self) -> int:
        """Commands that the driver made of it, resends not counted; at least the one."""
        return max(1, len({one.part for one in self.sends} | {one.part for one in self.ran}))

    @property
    def copies(self) -> int:
        """How often it worked in the engine; on several shards at once is once, and so are the parts of a bulk."""
        return _most_of_a_part(self.ran, lambda one: one.inside)

    @property
    def effective(self) -> int:
        """How often that changed anything."""
        return _most_of_a_part(self.ran, lambda one: one.changed > 0)


@dataclass(slots=True)
class LogicalWrite:
    """One record, and all that was done for it."""

    name: str
    executions: dict[int, Execution] = field(default_factory=dict)
    sampled: int | None = None
    """The most copies that one look at a member found; None: it was never seen."""
    sampled_on: str | None = None
    sampled_interval: float | None = None
    """Seconds between that look and the one before."""
    alarms: list[Event] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    """What became of the record, by what and how often: polled, redelivered, dead, ..."""

    @property
    def consumers(self) -> int:
        """How many consumers executed it."""
        return len({one.consumer for one in self.executions.values()})


def _most_of_a_part(ran: list[Ran], counts: Callable[[Ran], bool]) -> int:
    counted = [one for one in ran if counts(one)]
    if len(counted) <= 1:
        return len(counted)
    found: dict[Part, Counter[str]] = {}
    for one in counted:
        found.setdefault(one.part, Counter())[one.member] += 1
    return max((max(members.values()) for members in found.values()), default=0)
