"""Puts the one question to every seat, each at its own pace, and keeps the last answer of each.

A seat that takes long or fails is asked less often, one that owes an answer not at all; a question ends by itself on
the server (its maxTimeMS), and a watch that is killed leaves nothing behind but a broken connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from clusters.wire.connection import CommandFailed, ConnectionLost
from harness.measures import NS, OVERDUE
from harness.watchers.line import Line, StillWaiting
from harness.watchers.pools import in_use
from harness.watching.asking import current_op
from harness.watching.judging import Unseen
from harness.watching.reading import Reading, read
from harness.watching.seats import Seat, Seats

SHARE: Final = 0.05
"""Of its time, at most, that a member spends on our questions: one that answers late is asked that much less often."""
LONGEST: Final = 60.0
"""Seconds between two questions to one seat, at most."""


def pause(every: float, took: float, failures: int) -> float:
    """Seconds until a seat is asked again, which has taken `took` seconds, or failed so many times in a row."""
    return min(max(LONGEST, every), max(every * (1 << min(failures, 10)), took / SHARE))


class Looks:
    """`every`: seconds between two looks; `patience`: seconds that an answer is waited for."""

    def __init__(self, seats: Seats, *, every: float, patience: float) -> None:
        self._start = time.monotonic_ns()
        self._seats = seats
        self._every = every
        self._patience = patience
        self._names = {one.host: one.name for one in seats.members}
        self._lines = {one.name: Line(one.host) for one in seats.seats}
        self._by_router = Line(seats.through.host) if seats.through is not None else None
        self._ask = current_op(max_time_ms=int(patience * 1000))
        # The router is asked for the primaries: any other choice would be another member each time.
        self._ask_router = {**self._ask, "$readPreference": {"mode": "primary"}}
        self._ask_own = current_op(max_time_ms=int(patience * 1000), local=True)
        self._failures: dict[str, int] = defaultdict(int)
        self._turned_away: dict[str, Unseen] = {}
        self._fresh: set[str] = set()
        self.readings: dict[str, Reading] = {}
        self.unseen: dict[str, Unseen] = {}
        self.slowest = 0.0
        """Seconds of the longest answer so far."""

    async def once(self) -> None:
        """One look at all, at the same time; a seat without an answer costs its patience."""
        await asyncio.gather(*(self._look(one) for one in self._seats.seats))
        await self._through_router()

    async def watch(self, looked: Callable[[], object]) -> None:
        """Until cancelled; `looked` is called once an interval. Call `close` afterwards."""
        async with asyncio.TaskGroup() as tasks:
            for number, seat in enumerate(self._seats.seats):
                offset = self._every * number / len(self._seats.seats)
                tasks.create_task(self._keep_looking(seat, offset), name=f"looks at {seat.name}")
            if self._by_router is not None:
                tasks.create_task(self._keep_through(), name="looks through the router")
            while True:
                await asyncio.sleep(self._every)
                looked()

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in (*self._lines.values(), *filter(None, [self._by_router]))))

    def fresh(self) -> list[str]:
        """Who answered since this was asked last."""
        fresh, self._fresh = self._fresh, set()
        return sorted(fresh)

    def now(self) -> int:
        """Nanoseconds since it was made."""
        return time.monotonic_ns() - self._start

    async def _keep_looking(self, seat: Seat, offset: float) -> None:
        await asyncio.sleep(offset)
        while True:
            took = await self._look(seat)
            await asyncio.sleep(pause(self._every, took, self._failures[seat.name]))

    async def _keep_through(self) -> None:
        while True:
            took = await self._through_router()
            await asyncio.sleep(pause(self._every, took, 0))

    async def _look(self, seat: Seat) -> float:
        """Seconds that the answer took."""
        line = self._lines[seat.name]
        began = self.now()
        try:
            if line.busy and not await line.answered(patience=self._patience):
                raise StillWaiting("owes an answer")
            reading = await self._reading(seat, line)
        except StillWaiting:
            since = self.unseen[seat.name].since if seat.name in self.unseen else began
            self._missed(seat, f"no answer for {(self.now() - since) / NS:.1f} s", owed=True)
            return 0.0
        except ConnectionLost as lost:
            self._missed(seat, str(lost))
        except CommandFailed as failure:
            self._missed(seat, f"{failure.command} is refused: {failure.code} {failure.code_name}")
        else:
            self._failures[seat.name] = 0
            self._turned_away.pop(seat.name, None)
            self._saw(seat.name, reading)
        return (self.now() - began) / NS

    async def _reading(self, seat: Seat, line: Line) -> Reading:
        router = seat.kind == "router"
        asked = self.now()
        reply = await line.ask("admin", self._ask_own if router else self._ask, patience=self._patience)
        self.slowest = max(self.slowest, (self.now() - asked) / NS)
        reading = read(seat.name, reply["cursor"]["firstBatch"], self.now(), router=router)
        if any(one.overdue > OVERDUE / 2 for one in reading.getmores):
            with suppress(CommandFailed, StillWaiting):
                pools = await line.ask("admin", {"connPoolStats": 1}, patience=self._patience)
                reading = replace(reading, towards=in_use(pools, self._names))
        return reading

    async def _through_router(self) -> float:
        """For members that do not let us in: one question to the router, which asks one member of each shard."""
        line = self._by_router
        if line is None or not self._turned_away or line.busy:
            return 0.0
        began = self.now()
        entries: list[Mapping[str, Any]] = []
        with suppress(StillWaiting, ConnectionLost, CommandFailed):
            entries = (await line.ask("admin", self._ask_router, patience=self._patience))["cursor"]["firstBatch"]
        found = by_member(entries, self._seats)
        for name, unseen in self._turned_away.items():
            if name in found:
                self._saw(name, read(name, found[name], self.now()))
            else:
                # What was seen of it the last time says nothing of now.
                self.readings.pop(name, None)
                self.unseen[name] = unseen
        return (self.now() - began) / NS

    def _saw(self, name: str, reading: Reading) -> None:
        self.readings[name] = reading
        self._fresh.add(name)
        self.unseen.pop(name, None)

    def _missed(self, seat: Seat, why: str, *, owed: bool = False) -> None:
        # What is owed costs its member nothing: it is listened for, not asked for again.
        self._failures[seat.name] += not owed
        before = self.unseen.get(seat.name)
        unseen = Unseen(why, before.since if before is not None else self.now(), owed)
        if seat.kind == "member" and not owed:
            self._turned_away[seat.name] = unseen
        self.unseen[seat.name] = unseen


def by_member(entries: Iterable[Mapping[str, Any]], seats: Seats) -> dict[str, list[Mapping[str, Any]]]:
    """A router's answer by the names of members: by address where it is the configuration's, else by port where the
    shard has that once."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        of_shard = [one for one in seats.members if one.set_name == entry.get("shard")]
        host = str(entry.get("host", ""))
        same = [one for one in of_shard if one.host == host] or [
            one for one in of_shard if one.host.rpartition(":")[2] == host.rpartition(":")[2]
        ]
        if len(same) == 1:
            found[same[0].name].append(entry)
    return found
