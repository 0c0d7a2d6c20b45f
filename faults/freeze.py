"""`freeze`: a member stopped where it stands, by SIGSTOP or the container's pause.

The kernel keeps its connections open and accepts new ones; it answers nothing. Proven by the process state, T.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from clusters.guard import SignalProcess, Undo
from clusters.member import LocalMember
from faults.base import Evidence, HealFailed, Site, Unproven, register
from faults.options import Options

PROOF_DEADLINE = 2.0
"""Seconds until the process must be seen stopped; it takes milliseconds, on a loaded machine too."""
HEAL_DEADLINE = 5.0
POLL = 0.01


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
        target = self.target
        if not isinstance(target, LocalMember):
            return f"{target.name} is not a process of this machine"
        if target.process is None or not target.running():
            return f"{target.name} is not running"
        if target.frozen():
            return f"{target.name} is frozen already, and not by this run"
        return None

    def undo(self) -> Sequence[Undo]:
        assert isinstance(self.target, LocalMember)
        assert self.target.process is not None
        return [SignalProcess(self.target.process, int(signal.SIGCONT))]

    async def inject(self) -> None:
        self.target.freeze()

    async def proof(self) -> Evidence:
        if not await self._frozen_is(True, PROOF_DEADLINE):
            raise Unproven(f"{self.target.name} is not in process state T {PROOF_DEADLINE:g} s after SIGSTOP")
        return Evidence(f"process of {self.target.name} is in state T", {"state": "T", "host": self.target.host})

    async def active(self) -> bool:
        return self.target.frozen()

    async def heal(self) -> None:
        self.target.thaw()
        if not await self._frozen_is(False, HEAL_DEADLINE):
            raise HealFailed(f"{self.target.name} is still stopped {HEAL_DEADLINE:g} s after SIGCONT")

    async def _frozen_is(self, wanted: bool, deadline: float) -> bool:
        """Whether it comes to be so by the deadline; the kernel tells nobody but the parent of a stop."""
        end = time.monotonic() + deadline
        while self.target.frozen() != wanted:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(POLL)
        return True
