"""`freeze`: a member stopped where it stands, by SIGSTOP or the container's pause.

The kernel keeps its connections open and accepts new ones; it answers nothing. Proven by the process state, T.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from clusters.guard import Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.options import Options

PROOF_DEADLINE = 2.0
"""Seconds until the process must be seen stopped; it takes milliseconds, on a loaded machine too."""


@register
class Freeze:
    """Stop one member; see the module."""

    name: ClassVar[str] = "freeze"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process of this machine"
    proven_by: ClassVar[str] = "process state T, as the kernel says"
    healed_by: ClassVar[str] = "SIGCONT, and the state is T no more"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target

    async def available(self) -> str | None:
        return process.obstacle(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.go_on(self.target)]

    async def inject(self) -> None:
        self.target.freeze()

    async def proof(self) -> Evidence:
        if not await process.comes(self.target.frozen, PROOF_DEADLINE):
            raise Unproven(f"{self.target.name} is not in process state T {PROOF_DEADLINE:g} s after SIGSTOP")
        return Evidence(f"process of {self.target.name} is in state T", {"state": "T", "host": self.target.host})

    async def active(self) -> bool:
        return self.target.frozen()

    async def heal(self) -> None:
        await process.thawed(self.target)
