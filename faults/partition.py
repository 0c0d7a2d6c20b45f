"""`partition`: nothing passes between a node and others, both ways or one; all else works.

`against` says who is on the other side: by default the other members of its set, so that several targets are cut off
from each other too; with one `against` they are a group. By the proxy, proven by probes that say to be of either side
and get no answer from the other; or by the kernel in a container's network namespace, proven by connections from
either side that do not come about, and by the packets that it dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from clusters.cluster import Cluster, of_set
from clusters.compose.container import ContainerMember
from clusters.compose.render import PORT
from clusters.member import Member
from clusters.wire.proxy.client import Kind, Rule
from faults import process
from faults.base import Evidence, Fault, Site, Unproven, register
from faults.either import ByOptions, Either
from faults.filtering import FilteringFault
from faults.namespace import address_of, reaches
from faults.network import ANSWER, NO_ANSWER, NetworkFault, Probe
from faults.options import Names, Options

NO_CONNECTION: Final = 1.5
"""Seconds without a connection that prove that none comes about: a packet that is lost is sent again after one."""


class PartitionOptions(Options, ByOptions):
    """Options of `partition`."""

    against: Names = Field(
        default=(), description="The other side, by comma: members, router, driver; else the others of its set."
    )
    way: Literal["both", "in", "out"] = Field(
        default="both", description="What is held: both ways, what comes to the target, or what it sends."
    )


def against(cluster: Cluster, target: Member, given: Sequence[str]) -> tuple[str, ...]:
    """The other side, by name."""
    others = (one.name for one in of_set(cluster, target.spec.set_name))
    return tuple(given) or tuple(one for one in others if one != target.name)


class PartitionByProxy(NetworkFault):
    """By rules of the proxy."""

    name: ClassVar[str] = "partition"
    options: ClassVar[type[Options]] = PartitionOptions
    needs: ClassVar[str] = "a member with a proxy before it (up --proxied)"
    proven_by: ClassVar[str] = "probes that say to be of one side and get no answer from the other"

    @property
    def against(self) -> tuple[str, ...]:
        return against(self.cluster, self.target, self.given.against)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.against

    def rules(self) -> Sequence[Rule]:
        reached = tuple(one for one in self.against if one in self.cluster.members)
        inwards = self.rule(Kind.BLACKHOLE)
        outwards = [Rule(Kind.BLACKHOLE, to=reached, source=(self.target.name,))] if reached else []
        return {"both": [inwards, *outwards], "in": [inwards], "out": outwards}[self.given.way]

    def probe(self) -> Probe:
        if self.given.way == "out":
            return Probe(self.cluster, self._others()[0], self.target.name)
        return super().probe()

    async def available(self) -> str | None:
        if not self.against:
            return f"{self.target.name} is alone in its set: say against whom, against=NAME,NAME"
        if not self.rules():
            return f"{self.target.name} sends nothing to {', '.join(self.against)}: way=out cuts nobody off"
        return await super().available()

    async def effect(self, probe: Probe) -> str:
        if not await probe.silent():
            raise Unproven(f"{self.target.name} and {', '.join(self.against)} reach each other")
        if self.given.way == "both" and self._others():
            other = Probe(self.cluster, self._others()[0], self.target.name)
            try:
                # Held like all else, it does not even get through its handshake.
                async with asyncio.timeout(NO_ANSWER):
                    await other.connect()
            except TimeoutError:
                pass
            else:
                raise Unproven(f"{self.target.name} reaches {self._others()[0].name}")
            finally:
                other.close()
        return f"between {self.target.name} and {', '.join(self.against)} nothing is answered within {NO_ANSWER:g} s"

    def _others(self) -> list[Member]:
        """Of the other side, those that can be asked."""
        return [self.cluster.members[one] for one in self.against if one in self.cluster.members]


class PartitionByKernel(FilteringFault):
    """By rules in the network namespace of the target's container."""

    name: ClassVar[str] = "partition"
    options: ClassVar[type[Options]] = PartitionOptions

    def __init__(self, site: Site, options: Any = None) -> None:
        super().__init__(site, options)
        self._others: Mapping[str, tuple[ContainerMember, str]] = {}
        """Those of the other side, with their addresses."""

    def rules(self) -> Sequence[str]:
        """One way is that of connections: what is sent to a server, and its replies."""
        port = f"-p tcp -m tcp --{{}}port {PORT}"
        found = []
        for _member, address in self._others.values():
            came, left = f"-s {address} -i {self.device}", f"-d {address} -o {self.device}"
            if self.given.way == "both":
                found += [came, left]
            else:
                server, client = ("d", "s") if self.given.way == "in" else ("s", "d")
                found += [f"{came} {port.format(server)}", f"{left} {port.format(client)}"]
        return found

    def obstacle(self) -> str | None:
        if self.cluster.proxy is not None:
            return f"{self.target.name} and the others reach each other through proxies: expected by=proxy"
        servers = {one.name: one for one in getattr(self.cluster, "processes", ()) if isinstance(one, ContainerMember)}
        names = against(self.cluster, self.target, self.given.against)
        if not names:
            return f"{self.target.name} is alone in its set: say against whom, against=NAME,NAME"
        found = {}
        for name in names:
            if name not in servers:
                known = ", ".join(one for one in servers if one != self.target.name)
                return f"against={name}: the kernel tells containers apart, expected of {known}; or by=proxy"
            if (address := address_of(servers[name])) is None or address == self.address:
                return f"against={name}: it has no address of its own on one network"
            found[name] = servers[name], address
        self._others = found
        return None

    async def inject(self) -> None:
        for reached, told in (await self._reach(ANSWER)).values():
            if not reached:
                raise Unproven(f"before the fault {told} does not come about")
        await super().inject()

    async def proof(self) -> Evidence:
        for reached, told in (await self._reach(NO_CONNECTION)).values():
            if reached:
                raise Unproven(f"{told} comes about")
        seen, dropped = await self.tried(self.counted)
        if not any(dropped):
            raise Unproven(f"{self.target.name}: of {seen} packets the kernel dropped none")
        return Evidence(
            f"between {self.target.name} and {', '.join(self._others)} no connection comes about within "
            f"{NO_CONNECTION:g} s; the kernel dropped {sum(dropped)} packets",
            {"dropped": dropped, "chain": self.chain},
        )

    async def _reach(self, deadline: float) -> Mapping[str, tuple[bool, str]]:
        """Whether connections come about, in the ways that are cut, all of them tried at once."""
        tries: dict[str, tuple[int, str]] = {}
        for name, (other, address) in self._others.items():
            if self.given.way != "out":
                tries[f"one from {name} to {self.target.name}"] = process.pid(other), self.address
            if self.given.way != "in":
                tries[f"one from {self.target.name} to {name}"] = self.pid, address
        outcomes = await asyncio.gather(
            *(asyncio.to_thread(reaches, pid, address, PORT, deadline) for pid, address in tries.values())
        )
        return {told: (outcome, told) for told, outcome in zip(tries, outcomes, strict=True)}


@register
class Partition(Either):
    """See the module."""

    name: ClassVar[str] = "partition"
    options: ClassVar[type[Options]] = PartitionOptions
    needs: ClassVar[str] = "a member with a proxy before it (up --proxied), or one that is a container, and root"
    proven_by: ClassVar[str] = "probes from one side that get no answer from the other"
    by_proxy: ClassVar[type[Fault]] = PartitionByProxy
    by_kernel: ClassVar[type[Fault]] = PartitionByKernel
