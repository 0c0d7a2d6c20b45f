"""`isolate`: a member's container taken off its network, and put back at the heal under its names and its address.

Nobody reaches it and it reaches nobody: connections between members stay and hang, those made anew fail, and those of
this machine break, as the port where it is published is gone too. The server itself runs on. Proven by the kernel: in
its network namespace there is no interface but lo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from clusters.compose import engine
from clusters.compose.container import ContainerMember
from clusters.guard import ReconnectContainer, Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.options import Options

PROOF_DEADLINE = 5.0
"""Seconds until its interface must be gone; it takes a fifth of one."""
HEAL_DEADLINE = 20.0
LOOPBACK = "lo"


@register
class Isolate:
    """Isolate one member; see the module."""

    name: ClassVar[str] = "isolate"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a container of this machine"
    proven_by: ClassVar[str] = "no network interface but lo, as the kernel says"
    healed_by: ClassVar[str] = "on its network again under the same names and address, as the engine says"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._back: ReconnectContainer | None = None

    async def available(self) -> str | None:
        if not isinstance(self.target, ContainerMember):
            return f"{self.target.name} is no container with a network of its own: expected --provider compose"
        if reason := process.obstacle(self.target):
            return reason
        self._back = await asyncio.to_thread(self.target.endpoint)
        return None if self._back is not None else f"{self.target.name} is not on one network, which could be put back"

    def undo(self) -> Sequence[Undo]:
        return [self._connection]

    async def inject(self) -> None:
        await asyncio.to_thread(engine.detach, self._connection.network, self._connection.container)

    async def proof(self) -> Evidence:
        if not await process.comes(lambda: self._interfaces() == [LOOPBACK], PROOF_DEADLINE):
            raise Unproven(f"{self.target.name} still has network interfaces: {', '.join(self._interfaces())}")
        return Evidence(
            f"{self.target.name} has no network interface but {LOOPBACK}, and was {self._connection.address}",
            {"host": self.target.host, "address": self._connection.address, "interfaces": self._interfaces()},
        )

    async def active(self) -> bool:
        return self._interfaces() == [LOOPBACK]

    async def heal(self) -> None:
        await process.undone(self.target, self.undo(), HEAL_DEADLINE)

    @property
    def _connection(self) -> ReconnectContainer:
        assert self._back is not None
        return self._back

    def _interfaces(self) -> list[str]:
        """Those in the network namespace of its process (proc(5), `net/dev`); none where it has ended."""
        try:
            lines = Path(f"/proc/{process.pid(self.target)}/net/dev").read_text().splitlines()[2:]
        except OSError:
            return []
        return [line.partition(":")[0].strip() for line in lines]
