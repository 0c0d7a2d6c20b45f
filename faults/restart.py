"""`restart`: a member ended and started again at once; what is held is its new life: empty caches, no connections.

The target ends by SIGTERM (see `terminate`) or SIGKILL and is a secondary again before the fault counts as injected.
There is nothing left to heal then. Proven by a new process, and by an uptime that began after the act.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from clusters.guard import Process, Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.direct import ask
from faults.options import Options
from faults.terminate import SHUTDOWN_DEADLINE

PROOF_DEADLINE = 60.0
"""Seconds until the member must be in its set again."""
POLL = 0.05


class RestartOptions(Options):
    """Options of `restart`."""

    signal: Literal["TERM", "KILL"] = Field(default="TERM", description="How it is ended: in order, or killed.")
    down: float = Field(default=0.0, ge=0, le=600, description="Seconds between its end and its start.")


@register
class Restart:
    """Restart one member; see the module."""

    name: ClassVar[str] = "restart"
    options: ClassVar[type[Options]] = RestartOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process or a container of this machine"
    proven_by: ClassVar[str] = "another process, as the kernel says, whose own uptime began after the act"
    healed_by: ClassVar[str] = "it runs and says hello; it did so already when the fault was proven"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        options = options or RestartOptions()
        self.target = site.target
        self._signal, self._down = options.signal, options.down
        self._before: Process | None = None
        self._new: Process | None = None
        self._began = 0.0

    async def available(self) -> str | None:
        return process.obstacle(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.start_again(self.target)]

    async def inject(self) -> None:
        server = process.server(self.target)
        self._before, self._began = server.process, time.monotonic()
        if self._signal == "KILL":
            await server.kill()
        else:
            await server.stop(deadline=SHUTDOWN_DEADLINE)
        await asyncio.sleep(self._down)
        await server.start(deadline=process.START_DEADLINE)
        self._new = server.process

    async def proof(self) -> Evidence:
        if self._new is None or self._new == self._before:
            raise Unproven(f"{self.target.name} is the process it was: {self._before}")
        since = time.monotonic() - self._began
        status = await ask(self.target, {"serverStatus": 1})
        uptime = float(status.get("uptimeMillis", 1000 * status.get("uptime", 0))) / 1000
        if uptime > since:
            raise Unproven(f"{self.target.name} is up for {uptime:.1f} s, for longer than since it was to end")
        hello = await self._in_its_set()
        rank = "a router" if "setName" not in hello else "a primary" if hello["isWritablePrimary"] else "a secondary"
        return Evidence(
            f"{self.target.name} is {self._new}, no more {self._before}, up for {uptime:.1f} s; {rank} "
            f"{time.monotonic() - self._began:.1f} s after SIG{self._signal}",
            {"pid": self._new.pid, "uptime": uptime, "down_for": round(since - uptime, 3)},
        )

    async def active(self) -> bool:
        now = process.server(self.target).process
        return now == self._new != self._before and self.target.running()

    async def heal(self) -> None:
        await process.started(self.target, self._before)

    async def _in_its_set(self) -> dict[str, Any]:
        end = time.monotonic() + PROOF_DEADLINE
        while time.monotonic() < end:
            hello = await ask(self.target, {"hello": 1})
            if hello.get("secondary") or hello.get("isWritablePrimary"):
                return hello
            await asyncio.sleep(POLL)
        raise Unproven(f"{self.target.name} is in its set no more {PROOF_DEADLINE:g} s after it was started again")
