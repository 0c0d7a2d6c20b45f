"""`memory-limit`: a container that may have little more memory than it needs; as on a machine that is too full.

What it keeps of files it loses and reads again and again. A server that needs more after all is killed by the kernel,
and started again at the heal. Proven by what the kernel takes back of files, while more and more connections of ours
take memory: a tenth of a megabyte each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from clusters.compose.container import ContainerMember
from clusters.guard import Undo
from clusters.wire.connection import Connection
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.cgroup import NoCgroup
from faults.container_limits import MEBIBYTE, ContainerMemory
from faults.direct import FAILURES
from faults.options import Options

PROOF_DEADLINE = 30.0
"""Seconds in which it must have wanted more than it may have."""
HEAL_DEADLINE = 20.0
ANSWER = 5.0


class MemoryLimitOptions(Options):
    """Options of `memory-limit`."""

    megabytes: float | None = Field(
        default=None, ge=6, le=1 << 20, description="The limit; else what it needs now and 'room'."
    )
    room: float = Field(default=16.0, gt=0, le=1 << 20, description="Megabytes more than it needs now.")


@register
class MemoryLimit:
    """Limit one container's memory; see the module."""

    name: ClassVar[str] = "memory-limit"
    options: ClassVar[type[Options]] = MemoryLimitOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a container of this machine"
    proven_by: ClassVar[str] = "what the kernel takes back of files, at the limit of its control group"
    healed_by: ClassVar[str] = "the limit that it had, and started again if the kernel has killed it"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._given: MemoryLimitOptions = options or MemoryLimitOptions()
        self._memory: ContainerMemory | None = None

    async def available(self) -> str | None:
        if not isinstance(self.target, ContainerMember):
            return f"{self.target.name} is no container: expected --provider compose"
        if reason := process.obstacle(self.target):
            return reason
        try:
            self._memory = await asyncio.to_thread(ContainerMemory, self.target.container, process.pid(self.target))
            needed = self._memory.needed() / MEBIBYTE
        except (NoCgroup, OSError) as error:
            return f"{self.target.name}: {error}"
        if (self._given.megabytes or needed + 1) < needed:
            return f"{self.target.name} needs {needed:.0f} MB now: expected megabytes={needed + 1:.0f} or more"
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._limited.undo()]

    async def inject(self) -> None:
        memory, megabytes = self._limited, self._given.megabytes
        try:
            if megabytes is None:
                megabytes = memory.needed() / MEBIBYTE + self._given.room
            await asyncio.to_thread(memory.make, int(megabytes * MEBIBYTE))
        except (NoCgroup, OSError) as error:
            raise Unproven(f"{self.target.name} cannot be limited: {error}") from error

    async def proof(self) -> Evidence:
        end = time.monotonic() + PROOF_DEADLINE
        memory = self._limited
        connections: list[Connection] = []
        try:
            while time.monotonic() < end:
                # Looked at after each: the kernel first takes from files what it can, and soon kills.
                if taken := memory.taken_back():
                    seen = f"the kernel has taken back {taken / 1024:.0f} kB that it kept of files, as it wanted more"
                    return self._evidence(seen, taken)
                with suppress(*FAILURES):
                    connections.append(await Connection.open(self.target.host, deadline=ANSWER))
        except OSError as error:
            if await asyncio.to_thread(memory.killed):
                return self._evidence("the kernel killed it, as it wanted more")
            raise Unproven(f"{memory.path} cannot be read: {error.strerror}") from error
        finally:
            for one in connections:
                one.close()
        raise Unproven(
            f"{self.target.name} did not come to its limit of {memory.limit / MEBIBYTE:.1f} MB with {len(connections)} "
            f"connections of ours: it has {memory.used() / MEBIBYTE:.1f} MB"
        )

    def _evidence(self, seen: str, taken: int | None = None) -> Evidence:
        limit = self._limited.limit / MEBIBYTE
        return Evidence(
            f"{self.target.name} has {limit:.1f} MB; {seen}",
            {"limit": round(limit, 1), "taken_back": taken, "cgroup": str(self._limited.path)},
        )

    async def active(self) -> bool:
        """Also where it has been killed for want of memory: until the heal it has none."""
        if self._memory is None:
            return False
        return self._memory.holds(process.pid(self.target)) or await asyncio.to_thread(self._memory.killed)

    async def heal(self) -> None:
        if self._memory is None:
            return
        await process.undone(self.target, self.undo(), HEAL_DEADLINE)
        await process.started(self.target, None)

    @property
    def _limited(self) -> ContainerMemory:
        assert self._memory is not None
        return self._memory
