"""What the faults share that the kernel does to packets, in the network namespace of a member's container.

Each fault says what it puts there and what must be seen of it; here is whether that can be done at all, tried first in
a namespace that is made for it and gone at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

from clusters.compose import netns
from clusters.compose.container import ContainerMember
from clusters.errors import ClusterError
from clusters.guard import Undo
from faults import process
from faults.base import Site, Unproven
from faults.options import Options

HEAL_DEADLINE: Final = 20.0
CONNECT: Final = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
NEEDS: Final = "a member that is a container of this machine, and root"
Result = TypeVar("Result")


class NamespaceFault:
    """The classes made from it have `name`, `options`, `tools`, `proof`, and what is put there."""

    name: ClassVar[str]
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = NEEDS
    proven_by: ClassVar[str]
    healed_by: ClassVar[str]
    aim: ClassVar[str] = "any"
    tools: ClassVar[tuple[str, ...]]
    otherwise: ClassVar[str] = ""
    """Who else does it, where the kernel does not."""

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self.given: Any = options or self.options()
        self.cluster = site.cluster
        self.address = ""
        self.device = ""
        """The interface with that address, within the container."""

    # What each is

    def trial(self) -> tuple[Sequence[str], str]:
        """A command, and what it is told, by which the kernel is asked in a namespace made for it (device lo)."""
        raise NotImplementedError

    def obstacle(self) -> str | None:
        """What else stands in the way, once the container is known. Raises ToolFailed, EngineFailed, OSError."""
        return None

    def undo(self) -> Sequence[Undo]:
        raise NotImplementedError

    def put(self) -> None:
        """Put it there. Raises ToolFailed."""
        raise NotImplementedError

    def there(self) -> bool:
        """Whether it is. Raises ToolFailed."""
        raise NotImplementedError

    # What they share

    async def available(self) -> str | None:
        if not isinstance(self.target, ContainerMember):
            return f"{self.target.name} is no container with a network of its own: expected --provider compose"
        if reason := process.obstacle(self.target) or netns.lacking(self.tools):
            return reason
        try:
            return await asyncio.to_thread(self._obstacle, self.target)
        except (netns.ToolFailed, ClusterError, OSError) as error:
            return f"{self.target.name}: {error}"

    def _obstacle(self, target: ContainerMember) -> str | None:
        if netns.shares_ours(self.pid):
            return f"{target.name} has no network of its own"
        if (endpoint := target.endpoint()) is None:
            return f"{target.name} is not on one network"
        self.address = endpoint.address
        links = json.loads(netns.run(self.pid, "ip", "-json", "address", "show"))
        found = [link["ifname"] for link in links if self.address in [one.get("local") for one in link["addr_info"]]]
        if not found:
            return f"{target.name} has no interface with its address {self.address}"
        self.device = str(found[0])
        command, said = self.trial()
        if reason := netns.refused(*command, said=said):
            return f"the kernel of this machine does not do it ({reason}){self.otherwise}"
        return self.obstacle()

    async def inject(self) -> None:
        await self.tried(self.put)

    async def active(self) -> bool:
        try:
            return await asyncio.to_thread(self.there)
        except netns.ToolFailed:
            return False

    async def heal(self) -> None:
        await process.undone(self.target, self.undo(), HEAL_DEADLINE)

    @property
    def pid(self) -> int:
        return process.pid(self.target)

    async def tried(self, act: Callable[..., Result], *arguments: Any) -> Result:
        """Raises Unproven where a tool fails."""
        try:
            return await asyncio.to_thread(act, *arguments)
        except netns.ToolFailed as error:
            raise Unproven(f"{self.name} on {self.target.name}: {error}") from error


def address_of(member: ContainerMember) -> str | None:
    """Of a container on one network. Raises ClusterError."""
    endpoint = member.endpoint()
    return str(ipaddress.ip_address(endpoint.address)) if endpoint is not None and endpoint.address else None


def reaches(pid: int, address: str, port: int, deadline: float) -> bool:
    """Whether a connection from the namespace of that process comes about by the deadline."""
    try:
        netns.run(pid, sys.executable, "-I", "-S", "-c", CONNECT, address, str(port), str(deadline))
    except netns.ToolFailed:
        return False
    return True
