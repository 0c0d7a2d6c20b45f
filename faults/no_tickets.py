"""`no-tickets`: a primary without a ticket for a write left: whatever wants to write waits for one.

The number of tickets is lowered to the least there can be, and as many commands of our own sleep with one each, behind
the lock of a collection that there is not. They write nothing. The wait looks for interrupts: maxTimeMS ends it, at the
next half second (measured on 6.0.5).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from clusters.guard import Undo
from clusters.wire.connection import CommandFailed
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import FAILURES, Direct
from faults.options import Options
from faults.parameter import Parameter
from faults.sessions import OwnSession, given_back
from faults.waiting import waits

PARAMETER: Final = "wiredTigerConcurrentWriteTransactions"
LEAST: Final = 5
"""Tickets: fewer are refused (measured on 6.0.5)."""
LONGEST: Final = 7200.0
"""Seconds that a ticket is held at most, whatever becomes of those who would give it back."""
TAKEN_DEADLINE: Final = 10.0
"""Seconds until all tickets must be ours; writes under way give theirs back."""
POLL: Final = 0.02


@register
class NoTickets:
    """Take all write tickets of one primary; see the module."""

    name: ClassVar[str] = "no-tickets"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a primary that runs with enableTestCommands=1"
    proven_by: ClassVar[str] = "no ticket is left, by serverStatus, and a command of ours that waits for one"
    healed_by: ClassVar[str] = "the commands that hold tickets are ended, and there are as many as before"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, _options: Any = None) -> None:
        self.target = site.target
        self._server = Direct(site.target.host)
        self._session = OwnSession(site.target.host)
        self._tickets = Parameter(site.target.host, PARAMETER, LEAST)
        self._holders: list[tuple[Direct, asyncio.Task[None]]] = []

    async def available(self) -> str | None:
        if reason := await means.no_primary(self.target):
            return reason
        try:
            reason = await self._obstacle()
        except FAILURES as error:
            reason = f"cannot be asked: {error}"
        return None if reason is None else f"{self.target.name} {reason}"

    async def _obstacle(self) -> str | None:
        """Why its tickets cannot be taken; without naming the server."""
        try:
            reply = await self._server.command({"getParameter": 1, "enableTestCommands": 1, PARAMETER: 1})
        except CommandFailed:
            return f"has no {self._tickets}: this server version does not know it"
        if not reply["enableTestCommands"]:
            return "runs without enableTestCommands=1 and so has no command that sleeps with a ticket"
        # The parameter says 0 as long as nobody has set it (measured on 6.0.5).
        total, _left = await self._counts()
        if total <= LEAST:
            return f"has only {total} tickets already, and not by this run: set {PARAMETER} first"
        self._tickets.plan(total)
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._tickets.undo(), self._session.undo()]

    async def inject(self) -> None:
        await self._tickets.on(self._server)
        for number in range(LEAST):
            holder = Direct(self.target.host)
            self._holders.append((holder, asyncio.create_task(self._hold(holder, number), name=f"ticket {number}")))
        end = time.monotonic() + TAKEN_DEADLINE
        while (await self._counts())[1] > 0:
            if time.monotonic() > end:
                raise Unproven(f"{self.target.name} has tickets left {TAKEN_DEADLINE:g} s after all were asked for")
            await asyncio.sleep(POLL)  # the server tells nobody who has one

    async def proof(self) -> Evidence:
        seconds, (total, left) = await waits(self._server), await self._counts()
        if seconds is None or left > 0:
            raise Unproven(f"{self.target.name} has {left} of {total} tickets left: what wants to write need not wait")
        return Evidence(
            f"{self.target.name} has none of its {total} write tickets left, and a command of ours waited {seconds:.1f}"
            " s for one, until its maxTimeMS ended it (50)",
            {"seconds": seconds, "tickets": total, "before": self._tickets.before},
        )

    async def active(self) -> bool:
        try:
            return (await self._counts())[1] == 0
        except FAILURES:
            return False

    async def heal(self) -> None:
        try:
            await given_back(self.target, self._server, [self._session], self._tickets)
        finally:
            for holder, task in self._holders:
                task.cancel()
                holder.close()
            await asyncio.gather(*(task for _holder, task in self._holders), return_exceptions=True)
            self._holders.clear()
            self._server.close()

    async def _hold(self, holder: Direct, number: int) -> None:
        """One ticket, until it is interrupted. An exclusive lock is one to write, as far as tickets go."""
        sleep = {
            "sleep": 1,
            "lock": "w",
            "lockTarget": f"mongofault_tickets.t{number}",
            "millis": round(LONGEST * 1000),
            "lsid": self._session.lsid,
        }
        try:
            await holder.command(sleep, deadline=LONGEST)
        except FAILURES:
            return

    async def _counts(self) -> tuple[int, int]:
        """Write tickets: all, and those left."""
        status = await self._server.command({"serverStatus": 1})
        # Until 7, and from 8 on.
        tickets = status.get("queues", {}).get("execution", {}).get("write")
        tickets = tickets or status["wiredTiger"]["concurrentTransactions"]["write"]
        return int(tickets["totalTickets"]), int(tickets["available"])
