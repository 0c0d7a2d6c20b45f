"""`slow-apply`: a secondary that applies late, or slowly, what it has fetched; it is behind, and never stands still.

`sleepBeforeCommit`, a fail point of 4.2 to 6.0, lets each commit take 100 ms more: 0.4 s for a single write, and under
load more and more. `secondaryDelay` makes it a delayed member: `seconds` behind, neither more nor less, of priority 0
and in no hello, as if hidden. Lookups of post-images wait for it, and writes that all are to acknowledge. Proven by how
long a note of ours in the oplog takes to be applied, as the secondary says. (Measured on 6.0.5.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from clusters.cluster import primary_of
from clusters.guard import Undo
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.configuration import FieldsOfMembers
from faults.direct import Direct, ask
from faults.failpoint import FailPoint
from faults.options import Options

FAIL_POINT: Final = "sleepBeforeCommit"
DELAYS: Final = ("secondaryDelaySecs", "slaveDelay")
"""The field of a delayed member: since 5.0, and before."""
LATER = 0.1
"""Seconds that an operation must be applied later than without the fault; four times as much by the fail point."""
PROOF_DEADLINE = 20.0
"""Seconds within which it must have been applied, the delay not counted."""
POLL = 0.02


class SlowApplyOptions(Options):
    """Options of `slow-apply`."""

    how: Literal["sleepBeforeCommit", "secondaryDelay"] = Field(
        default="sleepBeforeCommit", description="Fail point that makes each commit slow, or a delayed member."
    )
    seconds: int = Field(default=3, gt=0, le=3600, description="By how much a delayed member is behind.")


@register
class SlowApply:
    """Let one secondary apply late; see the module."""

    name: ClassVar[str] = "slow-apply"
    options: ClassVar[type[Options]] = SlowApplyOptions
    # By the fail point it would: a delayed member is forgotten by those who look for it.
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a secondary; with enableTestCommands=1 for sleepBeforeCommit"
    proven_by: ClassVar[str] = "how long an operation of ours takes to be applied, as the secondary says"
    healed_by: ClassVar[str] = "the fail point off and seen to be off, or the delay and priority that it had"
    aim: ClassVar[str] = "secondary"

    def __init__(self, site: Site, options: Any = None) -> None:
        options = options or SlowApplyOptions()
        self.target = site.target
        self._cluster = site.cluster
        self._delay: int | None = options.seconds if options.how == "secondaryDelay" else None
        self._fail_point = FailPoint(site.target.host, FAIL_POINT)
        self._fields = FieldsOfMembers(site)
        self._without = 0.0

    async def available(self) -> str | None:
        if reason := await means.no_secondary(self.target):
            return reason
        if self._delay is None:
            return await means.obstacle(self.target, self._fail_point)
        if reason := await self._fields.configuration.obstacle():
            return reason
        members = await self._fields.configuration.members()
        own = members[self.target.host]
        field = next(name for name in DELAYS if name in own)
        if own[field]:
            return f"{self.target.name} is {own[field]} s delayed already, and not by this run"
        self._fields.plan(members, {self.target.host: {field: self._delay, "priority": 0}})
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._fail_point.undo()] if self._delay is None else self._fields.undo()

    async def inject(self) -> None:
        self._without = await self._applied_after()
        await (self._fail_point.on() if self._delay is None else self._fields.on())

    async def proof(self) -> Evidence:
        if self._delay is not None:
            await self._fields.proven()
        # The server counts whole seconds: one that is delayed by three applies what is more than two seconds old.
        least = self._without + LATER if self._delay is None else self._delay - 1
        end = time.monotonic() + PROOF_DEADLINE
        took = await self._applied_after()
        while took <= least and time.monotonic() < end:
            took = await self._applied_after()
        if took <= least:
            raise Unproven(
                f"{self.target.name} applies an operation within {took:.2f} s; without the fault it was "
                f"{self._without:.2f} s, and more than {least:.2f} s were expected"
            )
        return Evidence(
            f"{self.target.name} says that it applied an operation of ours {took:.2f} s after it was written; "
            f"without the fault it was {self._without:.2f} s",
            {"seconds": round(took, 3), "without": round(self._without, 3)},
        )

    async def active(self) -> bool:
        return await (means.acts(self._fail_point) if self._delay is None else self._fields.is_on())

    async def heal(self) -> None:
        await (means.switch_off(self.target, self._fail_point) if self._delay is None else self._fields.off())

    async def _applied_after(self) -> float:
        """Seconds from the acknowledgment of a note in the primary's oplog until it is applied on the target."""
        primary = await primary_of(self._cluster, self.target.spec.set_name)
        note = await ask(primary, {"appendOplogNote": 1, "data": {"mongofault": self.name}})
        begin = time.monotonic()
        server = Direct(self.target.host)
        try:
            while time.monotonic() < begin + PROOF_DEADLINE + (self._delay or 0):
                status = await server.command({"replSetGetStatus": 1})
                if status["optimes"]["appliedOpTime"]["ts"] >= note["operationTime"]:
                    break
                await asyncio.sleep(POLL)
        finally:
            server.close()
        return time.monotonic() - begin
