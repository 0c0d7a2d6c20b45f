"""`freeze`: a member stopped where it stands, by SIGSTOP or the container's pause.

The kernel keeps its connections open and accepts new ones; it answers nothing. Proven by the process state, T.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import ClassVar

from clusters.cluster import Cluster
from clusters.guard import SignalProcess, Undo
from clusters.member import LocalMember, Member
from faults.base import Evidence, HealFailed, Unproven, register

PROOF_DEADLINE = 2.0
"""Seconds until the process must be seen stopped; it takes milliseconds, on a loaded machine too."""
HEAL_DEADLINE = 5.0
POLL = 0.01


@register
class Freeze:
    """Stop one member; see the module."""

    name: ClassVar[str] = "freeze"

    def __init__(self, cluster: Cluster, target: Member) -> None:
        self.target = target

    @classmethod
    def available(cls, cluster: Cluster, target: Member) -> str | None:
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
        try:
            async with asyncio.timeout(PROOF_DEADLINE):
                # The kernel sends no notice of a stop to anyone but the parent.
                while not self.target.frozen():  # noqa: ASYNC110
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise Unproven(f"{self.target.name} is not in process state T {PROOF_DEADLINE:g} s after SIGSTOP") from None
        return Evidence(f"process of {self.target.name} is in state T", {"state": "T", "host": self.target.host})

    async def heal(self) -> None:
        self.target.thaw()
        try:
            async with asyncio.timeout(HEAL_DEADLINE):
                while self.target.frozen():  # noqa: ASYNC110
                    await asyncio.sleep(POLL)
        except TimeoutError:
            raise HealFailed(f"{self.target.name} is still stopped {HEAL_DEADLINE:g} s after SIGCONT") from None
