"""The cases of `stale-shard`: how a router becomes stale, which operations are sent, and what becomes of each. Pure.

Three shards hold the collection: A what lies below 0, B [0, 50) and [50, 100), C the rest. B is the one that goes
stale. What is expected was measured on 6.0.5, of the router code inside a shard's primary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from clusters import quirks
from harness.drivers.routed import Operation, Setting
from harness.measures import ALL_BLOCKED, ISOLATED, NONE_WAITED

Making = Literal["split", "move", "dummy", "recreate", "migration", "primary"]
"""How routers are made stale: a split on a shard whose major version is behind; a range moved from B to A; an error of
B's that no version stands behind; the collection made anew; not at all, for a migration is stopped midway; a database
given another primary shard."""
HoldBy = Literal["fail-point", "freeze-config", "kill-config", "fail-command"]

STALE: Final = "countStaleConfigErrors"
INCREMENTAL: Final = "countIncrementalRefreshesStarted"
FULL: Final = "countFullRefreshesStarted"
FAILED: Final = "countFailedRefreshes"
Counts = Mapping[str, tuple[int, int]]
"""By counter, how far it goes at least and at most, from before the first operation until all are answered."""

LATER: Final = (6, 0, 24)
"""The first servers of 6.0 that were seen to count otherwise than 6.0.5; 6.0.27 counts as 6.0.24 does."""

FIRST: Final = Operation("first find B", "find", 52, "stale shard")
PROBE: Final = Operation("probe B", "aggregate", 52, "probe", max_time_ms=300)
SECOND: Final = (
    Operation("second find B", "find", 1, "stale shard"),
    Operation("second update B", "update", 2, "stale shard"),
)
"""To the other chunk of B, once the router knows that B is stale: the second access of the seed."""
ON_A: Final = (
    Operation("find A", "find", -5, "other shard"),
    Operation("update A", "update", -4, "other shard"),
)
ON_C: Final = (
    Operation("find C", "find", 150, "other shard"),
    Operation("update C", "update", 151, "other shard"),
    Operation("insert C", "insert", 152, "other shard"),
    Operation("aggregate C", "aggregate", 153, "other shard"),
)
ELSEWHERE: Final = (
    Operation("find other", "find", 53, "other collection", "other"),
    Operation("update other", "update", 3, "other collection", "other"),
)
RECIPIENT: Final = Operation("find A", "find", -5, "recipient")
"""A range moved to A makes a router stale for A as well: a read there learns it by itself, and waits."""
WRITE_TO_RECIPIENT: Final = Operation("update A", "update", -4, "recipient")


@dataclass(frozen=True, slots=True)
class Expected:
    """What becomes of a case through routers of one setting. `waiting`: the operations that wait, until the release
    unless `by_itself`; `errors`: those that end with one of these codes, all others end well; `counters`: judged are
    those named, and from `LATER` on as `later` has it."""

    outcome: str
    waiting: frozenset[str] = frozenset()
    errors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    counters: Counts = field(default_factory=dict)
    by_itself: bool = False
    later: Counts = field(default_factory=dict)

    def on(self, version: str) -> Expected:
        """The same of servers of this version."""
        if quirks.numbers(version) < LATER:
            return self
        return replace(self, counters={**self.counters, **self.later}, later={})

    def recorded(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "outcome": self.outcome,
            "waiting": sorted(self.waiting),
            "errors": {name: list(codes) for name, codes in self.errors.items()},
            "counters": {name: list(bounds) for name, bounds in self.counters.items()},
            "by_itself": self.by_itself,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """`first` is what tells the router, `probe` looks whether it knows, `second` and `bystanders` follow. `control`:
    the coarse router must hold back the bystanders, or the check of the fine one proves nothing. `point`: where a
    migration is stopped. `apart`: one router after the other, for only one at a time can be dealt with."""

    name: str
    about: str
    making: Making
    expected: Mapping[Setting, Expected]
    first: Operation | None = FIRST
    probe: Operation | None = PROBE
    second: Sequence[Operation] = SECOND
    bystanders: Sequence[Operation] = (*ON_A, *ON_C, *ELSEWHERE)
    control: bool = False
    point: str | None = None
    apart: bool = False
    holds: bool = True
    """Whether something is held at all."""

    @property
    def untold(self) -> bool:
        """Whether a router's counters stand still until the first operation. Of a collection that is dropped each shard
        is told, and the router code inside it learns of that."""
        return self.making != "recreate"

    @property
    def operations(self) -> list[Operation]:
        ahead = [one for one in (self.first, self.probe) if one is not None]
        return [*ahead, *self.second, *self.bystanders]


def names(operations: Sequence[Operation], *belongs: str) -> frozenset[str]:
    return frozenset(one.name for one in operations if not belongs or one.belongs in belongs)


def counts(stale: int, incremental: tuple[int, int] = (1, 1), full: int = 0, failed: int = 0) -> Counts:
    return {STALE: (stale, stale), INCREMENTAL: incremental, FULL: (full, full), FAILED: (failed, failed)}


def _both(fine: Expected, coarse: Expected) -> dict[Setting, Expected]:
    return {"fine": fine, "coarse": coarse}


def _held(operations: Sequence[Operation], stale: int, stale_coarse: int, refreshes: tuple[int, int]) -> Any:
    """The fine router holds back what is for stale shards; the coarse one all of the collection."""
    own = names(operations, "stale shard", "recipient")
    least, most = refreshes
    # Later servers refresh once more behind the one that all have waited for.
    later = {INCREMENTAL: (least + 1, most + 1)}
    return _both(
        Expected(ISOLATED, own, {PROBE.name: (304,)}, counts(stale, refreshes), later=later),
        Expected(ALL_BLOCKED, own | names(operations, "other shard"), {PROBE.name: (50,)}, counts(stale_coarse)),
    )


def isolation(via: Literal["split", "move"], hold_by: HoldBy, hold: float) -> Case:
    """The seed's question, as a router may become stale and a refresh be held."""
    bystanders = (*ON_A, *ON_C, *ELSEWHERE) if via == "split" else (RECIPIENT, *ON_C, *ELSEWHERE)
    operations = [FIRST, *SECOND, *bystanders]
    # Under the fail point a refresh has not begun to look, and all share it; else a write that finds its shard marked
    # while the lookup runs asks for another one (fine routers of 6.0.5).
    again = (1, 1) if hold_by == "fail-point" else (2, 2)
    stale = 1 if via == "split" else 2
    expected = _held(operations, stale, 1, again)
    if hold_by == "kill-config" and hold >= GIVEN_UP:
        expected = _given_up(operations)
    return Case("isolation", "the seed's question", via, expected, bystanders=bystanders, control=True)


GIVEN_UP: Final = 20.0
SOON: Final = 10.0
"""Seconds. A router waits 15 s for a primary of the config servers; between these two nobody knows who is first."""
NO_PRIMARY: Final = 133
MARKED: Final = 304


def _given_up(operations: Sequence[Operation]) -> dict[Setting, Expected]:
    """After 15 s without a primary of the config servers; the coarse router gives up for the bystanders as well."""
    own, others = names(operations, "stale shard", "recipient"), names(operations, "other shard")
    reads = {one.name: (NO_PRIMARY,) for one in operations if one.name in own}
    marked = {one.name: (MARKED,) for one in operations if one.name in own and one.writes}
    failed = dict.fromkeys(own | others, (NO_PRIMARY,))
    once = {INCREMENTAL: (1, 1), FULL: (0, 0), FAILED: (1, 1)}
    return _both(
        Expected(ISOLATED, own, {**reads, **marked, PROBE.name: (MARKED,)}, once, by_itself=True),
        Expected(ALL_BLOCKED, own | others, {**failed, PROBE.name: (50,)}, once, by_itself=True),
    )


def _dummy() -> Case:
    operations = [FIRST, *SECOND, *ON_A, *ON_C]
    return Case(
        "dummy-error",
        "B says 13388 with empty versions, once, though nothing changed; the seed's defect would invalidate all",
        "dummy",
        _held(operations, 1, 1, (1, 1)),
        control=True,
        apart=True,
    )


def _recreate() -> Case:
    bystanders = (*ON_A, *ON_C, *ELSEWHERE)
    waiting = names([FIRST, *SECOND, *ON_A, *ON_C])
    return Case(
        "drop-and-recreate",
        "the collection is made anew, and the whole table is read again; told of the drop, these routers ask A alone",
        "recreate",
        _both(
            # No shard is marked: the router code in a shard is told of the drop, takes the collection for unsharded and
            # sends all of it to A, which says each time that this is not so (measured on 6.0.5: 13388 from A alone).
            Expected(ALL_BLOCKED, waiting, {PROBE.name: (13388,)}, {FULL: (1, 3)}),
            Expected(ALL_BLOCKED, waiting, {PROBE.name: (50,)}, {FULL: (1, 1)}),
        ),
        bystanders=bystanders,
    )


def _recipient() -> Case:
    """Found on 6.0.5, fine alone: it looks like a defect of the server, and is reported as found."""
    bystanders = (WRITE_TO_RECIPIENT, *ON_C, *ELSEWHERE)
    operations = [FIRST, *SECOND[:1], *bystanders]
    own = names(operations, "stale shard")
    coarse = names(operations, "stale shard", "recipient", "other shard")
    return Case(
        "recipient-write",
        "after a move a read learns of it; a write to the recipient then fails at once instead of waiting",
        "move",
        _both(
            Expected(
                ISOLATED, own, {PROBE.name: (304,), WRITE_TO_RECIPIENT.name: (82,)}, {STALE: (2, 20), FULL: (0, 0)}
            ),
            Expected(ALL_BLOCKED, coarse, {PROBE.name: (50,)}, counts(1)),
        ),
        second=SECOND[:1],
        bystanders=bystanders,
        control=True,
    )


DONOR: Final = (
    Operation("find B", "find", 52, "stale shard"),
    Operation("update B", "update", 54, "stale shard"),
)
TO_RECIPIENT: Final = (RECIPIENT, WRITE_TO_RECIPIENT)


def _migration(name: str, about: str, point: str, *waiting: Operation) -> Case:
    outcome = ISOLATED if waiting else NONE_WAITED
    expected = Expected(outcome, names(waiting))
    return Case(
        name,
        about,
        "migration",
        _both(expected, expected),
        first=None,
        probe=None,
        second=(*DONOR, *TO_RECIPIENT),
        bystanders=(*ON_C, *ELSEWHERE),
        point=point,
        apart=True,
    )


MOVED: Final = "moved"
"""The databases that get another primary shard, three of them: each is learnt of once."""


def _primary() -> Case:
    read, probe, update = (
        Operation(name, command, 1, "stale shard", f"{MOVED}-{number}")  # type: ignore[arg-type]
        for number, (name, command) in enumerate(
            (("find moved", "find"), ("aggregate moved", "aggregate"), ("update moved", "update"))
        )
    )
    # What an aggregate is told is a stale error too, and later servers count it as one.
    expected = Expected(NONE_WAITED, frozenset(), {probe.name: (249,)}, {STALE: (0, 0)}, later={STALE: (1, 1)})
    return Case(
        "move-primary",
        "a database gets another primary shard: reads and writes learn it without a word, an aggregate says 249",
        "primary",
        _both(expected, expected),
        first=read,
        probe=probe,
        second=(update,),
        bystanders=ELSEWHERE,
        holds=False,
    )


_FIXED: Final[Sequence[Case]] = (
    _dummy(),
    _recreate(),
    _recipient(),
    _migration("critical-section-before", "stopped before the critical section", "moveChunkHangAtStep4"),
    _migration(
        "critical-section",
        "stopped in the critical section: writes to both shards of the move wait",
        "moveChunkHangAtStep5",
        DONOR[1],
        WRITE_TO_RECIPIENT,
    ),
    _migration(
        "critical-section-commit",
        "stopped before the donor leaves the critical section: reads and writes there wait",
        "hangBeforeLeavingCriticalSection",
        *DONOR,
    ),
    _migration(
        "critical-section-refresh",
        "stopped before the donor learns of the commit: the same",
        "hangBeforePostMigrationCommitRefresh",
        *DONOR,
    ),
    _migration("critical-section-after", "stopped after it", "moveChunkHangAtStep6"),
    _primary(),
)
FIXED: Final[Mapping[str, Case]] = {one.name: one for one in _FIXED}
"""The cases that are asked in one way only, by name."""
CASES: Final = ("isolation", *FIXED)


def of(name: str, via: Literal["split", "move"], hold_by: HoldBy, hold: float) -> Case:
    """The case of that name, as `isolation` is asked, or as it is."""
    return isolation(via, hold_by, hold) if name == "isolation" else replace(FIXED[name])
