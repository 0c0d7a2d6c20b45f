"""`cpu-limit`: a member that gets no more than a share of one CPU, as on a machine that is too small or too full.

All its threads together, in a control group of ours, or of a container in its own, which the engine limits: it works
for that share of each tenth of a second and waits for the rest. Proven by the kernel's count of how often it was held
back, while an aggregate of ours keeps it busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from pydantic import Field

from clusters.compose.container import ContainerMember
from clusters.guard import Undo, new_token
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.cgroup import CpuGroup, NoCgroup, place_for
from faults.container_limits import ContainerCpu
from faults.direct import FAILURES, Direct
from faults.options import Options

PROOF_DEADLINE = 20.0
"""Seconds in which it must have been held back again and again."""
THROTTLED: Final = 3
HEAL_DEADLINE = 5.0
POLL = 0.05
WORK: Final = {
    "aggregate": "oplog.rs",
    "pipeline": [
        {"$limit": 1},
        {"$project": {"sum": {"$reduce": {
            "input": {"$range": [0, 200_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]},
        }}}},
    ],
    "cursor": {},
    "$readPreference": {"mode": "secondaryPreferred"},
}  # fmt: skip
"""40 ms of a CPU, and no more than one document read (measured on 6.0.5)."""


class CpuLimitOptions(Options):
    """Options of `cpu-limit`."""

    share: float = Field(default=0.1, ge=0.01, le=0.9, description="Of one CPU.")


@register
class CpuLimit:
    """Limit one member's CPU time; see the module."""

    name: ClassVar[str] = "cpu-limit"
    options: ClassVar[type[Options]] = CpuLimitOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a container of this machine, or a process where control groups may be made"
    proven_by: ClassVar[str] = "the kernel's count of how often its control group was held back"
    healed_by: ClassVar[str] = "back in the control group it was in, and ours is gone; a container has its old limit"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._share = (options or CpuLimitOptions()).share
        self._group: CpuGroup | ContainerCpu | None = None

    async def available(self) -> str | None:
        if reason := process.obstacle(self.target):
            return reason
        try:
            self._group = await asyncio.to_thread(self._found)
        except NoCgroup as error:
            return f"{self.target.name}: {error}"
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._limited.undo()]

    async def inject(self) -> None:
        try:
            await asyncio.to_thread(self._limited.make, self._share)
            self._limited.take(process.pid(self.target))
        except (NoCgroup, OSError) as error:
            raise Unproven(f"{self.target.name} cannot be limited: {error}") from error

    async def proof(self) -> Evidence:
        working = asyncio.create_task(self._work())
        end = time.monotonic() + PROOF_DEADLINE
        group = self._limited
        try:
            while time.monotonic() < end and group.holds(process.pid(self.target)):
                times, seconds = group.throttled()
                if times >= THROTTLED:
                    return Evidence(
                        f"{self.target.name} has {self._share:g} of a CPU; the kernel held it back {times} times, for "
                        f"{seconds:.2f} s of its threads' time",
                        {"throttled": times, "seconds": round(seconds, 3), "cgroup": str(group.path)},
                    )
                await asyncio.sleep(POLL)
        except OSError as error:
            raise Unproven(f"{group.path} cannot be read: {error.strerror}") from error
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        raise Unproven(f"{self.target.name} was not held back by {group.path}")

    async def active(self) -> bool:
        return self._group is not None and self._group.holds(process.pid(self.target))

    async def heal(self) -> None:
        if self._group is None:
            return
        await process.undone(self.target, self.undo(), HEAL_DEADLINE)

    def _found(self) -> CpuGroup | ContainerCpu:
        if isinstance(self.target, ContainerMember):
            return ContainerCpu(self.target.container, process.pid(self.target))
        return CpuGroup(place_for(process.pid(self.target)), new_token())

    @property
    def _limited(self) -> CpuGroup | ContainerCpu:
        assert self._group is not None
        return self._group

    async def _work(self) -> None:
        """Keep one thread of it busy; a router, which has no such collection, with many small questions."""
        work, database = (WORK, "local") if self.target.spec.role.is_mongod else ({"hello": 1}, "admin")
        server = Direct(self.target.host)
        try:
            while True:
                await server.command(work, database=database, deadline=PROOF_DEADLINE)
        except FAILURES:
            return
        finally:
            server.close()
