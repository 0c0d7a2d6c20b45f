"""`freeze`: a member stopped where it stands, by SIGSTOP or the container's pause.

The kernel keeps its connections open and accepts new ones; it answers nothing. Proven by the process state, T, and of a
container that is paused by its control group: its processes are in state D.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from clusters.compose.container import ContainerMember
from clusters.guard import Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.options import Options

PROOF_DEADLINE = 2.0
"""Seconds until the process must be seen stopped; it takes milliseconds, on a loaded machine too."""


class FreezeOptions(Options):
    """Options of `freeze`."""

    how: Literal["auto", "signal", "pause"] = Field(
        default="auto",
        description="SIGSTOP to the server, or the container's pause; 'auto' pauses what is a container.",
    )


@register
class Freeze:
    """Stop one member; see the module."""

    name: ClassVar[str] = "freeze"
    options: ClassVar[type[Options]] = FreezeOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process or a container of this machine"
    proven_by: ClassVar[str] = "process state T, or the control group's freezer, as the kernel says"
    healed_by: ClassVar[str] = "SIGCONT or unpaused, and the kernel says so no more"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._how = (options or FreezeOptions()).how

    async def available(self) -> str | None:
        if self._how == "pause" and not isinstance(self.target, ContainerMember):
            return f"{self.target.name} is no container that could be paused: expected how=signal"
        return process.obstacle(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.go_on(self.target)]

    async def inject(self) -> None:
        target = self.target
        stop = target.halt if isinstance(target, ContainerMember) and self._how == "signal" else target.freeze
        await asyncio.to_thread(stop)

    async def proof(self) -> Evidence:
        if not await process.comes(self.target.frozen, PROOF_DEADLINE):
            stopped = "stopped" if isinstance(self.target, ContainerMember) else "in process state T"
            raise Unproven(f"{self.target.name} is not {stopped} {PROOF_DEADLINE:g} s after it was to be")
        if isinstance(self.target, ContainerMember):
            shown = self.target.stillness()
            return Evidence(f"{self.target.name} is stopped: {shown}", {"shown": shown, "host": self.target.host})
        return Evidence(f"process of {self.target.name} is in state T", {"state": "T", "host": self.target.host})

    async def active(self) -> bool:
        return self.target.frozen()

    async def heal(self) -> None:
        await process.thawed(self.target)
