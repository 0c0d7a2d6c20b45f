"""When copies of one write are too many at once, or the writes on one collection more than its clients: the alarms.

Pure: it is given what was last seen inside each member, and keeps one alarm for each episode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.measures import NS
from harness.watchers.inside import Group, Op, Wait, running

LIMIT: Final = 1
"""Copies of one logical write that may run at once."""

OVER: Final = 1.0
"""Seconds without an excess after which an episode is over; copies that take turns are one."""

GROUPS_TOLD: Final = 20
"""Groups that an alarm names, oldest first."""

Subject = tuple[str, str | None]
"""Namespace, and the logical write, None where it is about all that is on it."""


@dataclass(frozen=True, slots=True)
class OverlapAlarm:
    """`seconds` since the oldest began, `groups` as `[{lsid, txn, ops, copies, seconds, waits_for, members}]`.

    `waits_for` is what most of the copies wait for, `waiting` has all ops by what they wait for.
    """

    namespace: str
    write: str | None
    copies: int
    group_count: int
    groups: Sequence[Mapping[str, Any]]
    limit: int
    seconds: float
    waits_for: Wait
    waiting: Mapping[Wait, int]
    members: Sequence[str]
    known_by: str

    def fields(self) -> dict[str, Any]:
        """As the history has it."""
        return {
            "namespace": self.namespace, "write": self.write, "copies": self.copies, "group_count": self.group_count,
            "groups": [dict(one) for one in self.groups], "limit": self.limit, "seconds": self.seconds,
            "waits_for": self.waits_for, "waiting": dict(self.waiting), "members": list(self.members),
            "known_by": self.known_by,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cleared:
    """An episode that is over: how long it was, and the most copies and groups that were seen in it."""

    namespace: str
    write: str | None
    seconds: float
    most_copies: int
    most_groups: int

    def fields(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace, "write": self.write, "seconds": self.seconds,
            "most_copies": self.most_copies, "most_groups": self.most_groups,
        }  # fmt: skip


@dataclass(slots=True)
class _Episode:
    began: int
    last: int
    copies: int
    groups: int


class OverlapAlarms:
    """`limit` copies of one write may run at once, `clients` groups of writes on one namespace (None: any number)."""

    def __init__(self, *, limit: int = LIMIT, clients: int | None = None) -> None:
        self._limit = limit
        self._clients = clients
        self._episodes: dict[Subject, _Episode] = {}
        self.open: dict[Subject, OverlapAlarm] = {}

    def judge(
        self, inside: Mapping[str, Iterable[Op]], blind: Collection[str], now: int, every: float
    ) -> tuple[list[OverlapAlarm], list[Cleared]]:
        """New alarms and those that are over. `inside` has the ops of each member as they were last seen; those of the
        `blind` ones, which do not answer, are taken to be there still. `now` in ns, `every` the seconds between looks.
        """
        excesses = dict(self._excesses([op for ops in inside.values() for op in ops]))
        raised: list[OverlapAlarm] = []
        for subject, ops in excesses.items():
            copies, groups = sum(running(ops).values()), len({op.group for op in ops})
            episode = self._episodes.get(subject)
            if episode is None:
                self._episodes[subject] = _Episode(now, now, copies, groups)
                self.open[subject] = alarm = self._alarm(subject, ops, blind, every)
                raised.append(alarm)
            else:
                episode.last = now
                episode.copies, episode.groups = max(episode.copies, copies), max(episode.groups, groups)
        return raised, [
            self._clear(subject, episode)
            for subject, episode in list(self._episodes.items())
            if subject not in excesses and now - episode.last >= OVER * NS
        ]

    def _clear(self, subject: Subject, episode: _Episode) -> Cleared:
        del self._episodes[subject], self.open[subject]
        seconds = round((episode.last - episode.began) / NS, 3)
        return Cleared(*subject, seconds, episode.copies, episode.groups)

    def _excesses(self, ops: Sequence[Op]) -> Iterable[tuple[Subject, list[Op]]]:
        """What is too many, and the ops that make it so."""
        for namespace in sorted({op.namespace for op in ops}):
            here = [op for op in ops if op.namespace == namespace]
            counts = running(here)
            for write, copies in counts.items():
                if write is not None and copies > self._limit:
                    yield (namespace, write), [op for op in here if op.write == write]
            if self._clients is not None and len({op.group for op in here}) > self._clients:
                yield (namespace, None), here

    def _alarm(self, subject: Subject, ops: Sequence[Op], blind: Collection[str], every: float) -> OverlapAlarm:
        namespace, write = subject
        members = sorted({op.member for op in ops})
        by_group: dict[Group, list[Op]] = {}
        for op in ops:
            by_group.setdefault(op.group, []).append(op)
        told = sorted((_group(found) for found in by_group.values()), key=lambda one: -one["seconds"])
        silent = sorted(set(members) & set(blind))
        known_by = f"$currentOp of {', '.join(members)}, sampled every {every:g} s"
        return OverlapAlarm(
            namespace=namespace,
            write=write,
            copies=sum(running(ops).values()),
            group_count=len(by_group),
            groups=told[:GROUPS_TOLD],
            limit=self._limit if write is not None else self._clients or 0,
            seconds=max(op.seconds or 0.0 for op in ops),
            waits_for=_commonest(op for op in ops if op.copy) or _commonest(ops) or "nothing",
            waiting=Counter(op.waits_for for op in ops),
            members=members,
            known_by=known_by + (f"; {', '.join(silent)} gives no answer now" if silent else ""),
        )


def _group(ops: Sequence[Op]) -> dict[str, Any]:
    return {
        "lsid": ops[0].lsid,
        "txn": ops[0].txn,
        "ops": len(ops),
        "copies": sum(running(ops).values()),
        "seconds": max(op.seconds or 0.0 for op in ops),
        "waits_for": _commonest(op for op in ops if op.copy) or _commonest(ops),
        "members": sorted({op.member for op in ops}),
    }


def _commonest(ops: Iterable[Op]) -> Wait | None:
    counts = Counter(op.waits_for for op in ops)
    return max(counts, key=lambda wait: counts[wait], default=None)
