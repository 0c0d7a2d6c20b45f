"""Who is inside the engine right now: `$currentOp` of every member at short intervals, and the alarm on overlap.

Sampled: what begins and ends between two looks is not seen, and its figures are never called exact. A member that does
not answer is not asked again, and what was last seen in it is taken to be there still, as in one that is frozen it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from clusters.wire.connection import ConnectionLost
from harness.history import Recorder
from harness.measures import NS
from harness.watchers import inside
from harness.watchers.counters import at
from harness.watchers.inside import Op, Sample
from harness.watchers.line import PATIENCE, Line, Lines
from harness.watchers.overlap import LIMIT, OverlapAlarm, OverlapAlarms, Subject
from harness.watchers.watched import WatchedMember

SOURCE: Final = "currentOp"

EVERY: Final = 0.2
"""Seconds from one look to the next. Half of what an op is held is what finds them all (measured: every 0.05 s 40 of 40
ops of 0.15 s, every 0.2 s 27 of them)."""

REPEATED: Final = 1 * NS
"""Nanoseconds after which a sample that has not changed is written down again."""

TICKETS: Final = ("wiredTiger.concurrentTransactions.write.available", "queues.execution.write.available")
"""Where a server tells how many writes it would let into the engine now: up to 7, and from 8 on."""


class Copies:
    """Looks at the members that hold data. On `namespaces` the writes of others count as well. `clients` is how many
    there are (more groups of writes than that on one namespace are an alarm), `limit` the copies of one write at once.
    """

    def __init__(
        self,
        recorder: Recorder,
        members: Sequence[WatchedMember],
        run: str,
        *,
        namespaces: Sequence[str] = (),
        clients: int | None = None,
        limit: int = LIMIT,
        every: float = EVERY,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._every = every
        self._ask = inside.current_op(run, namespaces)
        self._lines = Lines({member.name: member.host for member in members if member.holds_data})
        self._alarms = OverlapAlarms(limit=limit, clients=clients)
        self._inside: dict[str, list[Op]] = {}
        self._blind: set[str] = set()
        self._looked: dict[str, int] = {}
        self._first: dict[str, dict[int | str, int]] = {}
        self._written: dict[tuple[str, str], tuple[int, Sample]] = {}

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        await self._lines.watch(self._poll, self._lost, self._pause)

    async def close(self) -> None:
        await self._lines.close()

    def alarms(self) -> Mapping[Subject, OverlapAlarm]:
        """Those that are open now."""
        return dict(self._alarms.open)

    def ops(self) -> list[Op]:
        """All that was seen inside at the last look at each member."""
        return [op for ops in self._inside.values() for op in ops]

    async def _pause(self, _name: str) -> None:
        await asyncio.sleep(self._every)

    async def _poll(self, name: str, line: Line) -> None:
        try:
            reply = await line.ask("admin", self._ask, patience=PATIENCE)
            entries = reply["cursor"]["firstBatch"]
            tickets_out = False
            if any(inside.may_want_a_ticket(one) for one in entries):
                status = await line.ask("admin", {"serverStatus": 1}, patience=PATIENCE)
                tickets_out = any(at(status, where) == 0 for where in TICKETS)
        except ConnectionLost:
            # Its process has ended, and what was in it with it; one that is only cut off is seen again before long.
            self._inside.pop(name, None)
            self._first.pop(name, None)
            raise
        self._saw(name, inside.read_ops(name, entries, self._run, tickets_out=tickets_out))

    def _lost(self, name: str) -> None:
        """No answer: nobody knows from here on what is inside."""
        if name not in self._blind:
            self._blind.add(name)
            self._recorder.record(
                "copies", SOURCE, member=name, namespace=None, interval=self._interval(name, self._recorder.now()),
                ops=None, groups=None, copies=None, writes={}, waiting={}, oldest=None,
            )  # fmt: skip
        self._judge()

    def _saw(self, name: str, ops: list[Op]) -> None:
        now = self._recorder.now()
        first = self._first.get(name, {})
        self._first[name] = seen = {op.opid: first.get(op.opid, now) for op in ops}
        self._inside[name] = [
            op if op.seconds is not None else replace(op, seconds=round((now - seen[op.opid]) / NS, 3)) for op in ops
        ]
        self._write(name, now)
        self._blind.discard(name)
        self._looked[name] = now
        self._judge()

    def _write(self, name: str, now: int) -> None:
        """What has changed, by namespace; and what has not, once in a while. A namespace left by all is told of once,
        and so is a member that answers again and holds nothing."""
        found = inside.samples(self._inside[name])
        interval = self._interval(name, now)
        gone = [namespace for member, namespace in self._written if member == name and namespace not in found]
        returned = name in self._blind
        if returned and not found and not gone:
            self._recorder.record("copies", SOURCE, member=name, namespace=None, interval=interval, **NOTHING.fields())
        for namespace in (*found, *gone):
            sample = found.get(namespace, NOTHING)
            at_last, before = self._written.get((name, namespace), (0, None))
            if before is not None and _same(before, sample) and now - at_last < REPEATED and not returned:
                continue
            self._recorder.record(
                "copies", SOURCE, member=name, namespace=namespace, interval=interval, **sample.fields()
            )
            self._written[name, namespace] = (now, sample)
            if namespace in gone:
                del self._written[name, namespace]

    def _interval(self, name: str, now: int) -> float | None:
        """Seconds since the look before: what was shorter may have been missed. None: it was never looked at."""
        before = self._looked.get(name)
        return None if before is None else round((now - before) / NS, 3)

    def _judge(self) -> None:
        raised, cleared = self._alarms.judge(self._inside, self._blind, self._recorder.now(), self._every)
        for alarm in raised:
            self._recorder.record("overlap.alarm", SOURCE, **alarm.fields())
        for episode in cleared:
            self._recorder.record("overlap.cleared", SOURCE, **episode.fields())


NOTHING: Final = Sample(0, 0, 0, {}, {}, 0.0)


def _same(one: Sample, other: Sample) -> bool:
    """But for how old it has grown meanwhile."""
    return replace(one, oldest=0.0) == replace(other, oldest=0.0)
