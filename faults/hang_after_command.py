"""`hang-after-command`: aggregates on the watched namespace never return; everything else on the member does.

hello, heartbeats, finds and monitors stay healthy: the shape that the stall had in production. A maxTimeMS does not end
the wait, nor does a client that goes away. Proven by an aggregate of our own that is held, and the fail point's count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from clusters.guard import Undo
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import Direct
from faults.failpoint import FailPoint
from faults.options import Options

FAIL_POINT = "waitAfterCommandFinishesExecution"
PROOF_DEADLINE = 10.0
"""Seconds until the probe must have been seen to be held."""
HELD = 0.3
"""Seconds that the probe must be without an answer; one that is not held has it in milliseconds."""
POLL = 0.05


@register
class HangAfterCommand:
    """Hold aggregates on one namespace on one member; see the module."""

    name: ClassVar[str] = "hang-after-command"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a member that runs with enableTestCommands=1"
    proven_by: ClassVar[str] = "an aggregate of our own that gets no answer, and the fail point's count"
    healed_by: ClassVar[str] = "the fail point off, and seen to be off"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._namespace = site.namespace
        conditions = {"ns": site.namespace, "commands": ["aggregate"]}
        self._fail_point = FailPoint(site.target.host, FAIL_POINT, conditions)

    async def available(self) -> str | None:
        if self._namespace is None:
            return "it holds the aggregates on one namespace, and none was given"
        return await means.obstacle(self.target, self._fail_point)

    def undo(self) -> Sequence[Undo]:
        return [self._fail_point.undo()]

    async def inject(self) -> None:
        await self._fail_point.on()

    async def proof(self) -> Evidence:
        probe = asyncio.create_task(self._aggregate())
        start = time.monotonic()
        try:
            while time.monotonic() < start + PROOF_DEADLINE and not probe.done():
                # The count is of looks at the fail point, several a second for each command held (measured on 6.0.5).
                times, waited = await self._fail_point.entered(), time.monotonic() - start
                if times > 0 and waited > HELD and not probe.done():
                    return Evidence(
                        f"an aggregate on {self._namespace} is held by {self.target.name}, with no answer after "
                        f"{waited:.1f} s; {self._fail_point} entered {times} times",
                        {"entered": times, "probe_seconds": round(waited, 3)},
                    )
                await asyncio.sleep(POLL)
        finally:
            # Whoever asked, it stays parked on the member until the fail point is off.
            probe.cancel()
            with suppress(asyncio.CancelledError, CommandFailed, ConnectionLost, DeadlinePassed):
                await probe
        raise Unproven(
            f"{self.target.name} does not hold an aggregate on {self._namespace}: {FAIL_POINT} is not in effect"
        )

    async def active(self) -> bool:
        return await means.acts(self._fail_point)

    async def heal(self) -> None:
        await means.switch_off(self.target, self._fail_point)

    async def _aggregate(self) -> None:
        assert self._namespace is not None
        database, _, collection = self._namespace.partition(".")
        server = Direct(self.target.host)
        pipeline = [{"$limit": 1}, {"$project": {"_id": 1}}]
        probe = {"aggregate": collection, "pipeline": pipeline, "cursor": {}, "comment": {"proof": FAIL_POINT}}
        try:
            await server.command(
                {**probe, "$readPreference": {"mode": "secondaryPreferred"}},
                database=database,
                deadline=2 * PROOF_DEADLINE,
            )
        finally:
            server.close()
