"""`kill`: a member's process gone by SIGKILL, its connections reset; started again at the heal, unless restart=no.

Nothing is handed over and nothing is said to anybody: a primary is missed after the election timeout. Proven by the
kernel: no process, and nobody listens at its port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from clusters.guard import Process, Undo
from faults import process
from faults.base import Evidence, Site, register
from faults.options import Options


class KillOptions(Options):
    """Options of `kill`."""

    restart: Literal["yes", "no"] = Field(
        default="yes", description="Whether the heal starts it again; else it is lost for good, and so are its data."
    )


@register
class Kill:
    """Kill one member; see the module."""

    name: ClassVar[str] = "kill"
    options: ClassVar[type[Options]] = KillOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process or a container of this machine"
    proven_by: ClassVar[str] = "no process, as the kernel says, and nobody listens at its port"
    healed_by: ClassVar[str] = "started again, and it says hello; with restart=no nothing"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._restart = (options or KillOptions()).restart == "yes"
        self._before: Process | None = None

    async def available(self) -> str | None:
        return process.obstacle(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.start_again(self.target)] if self._restart else []

    async def inject(self) -> None:
        server = process.server(self.target)
        self._before = server.process
        await server.kill()

    async def proof(self) -> Evidence:
        return process.gone(self.target)

    async def active(self) -> bool:
        return not self.target.running()

    async def heal(self) -> None:
        if self._restart:
            await process.started(self.target, self._before)
