"""`partition`: nothing passes between a node and others, both ways or one; all else works.

`against` says who is on the other side: by default the other members of its set, so that several targets are cut off
from each other too; with one `against` they are a group. Proven by probes that say to be of either side and get no
answer from the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from clusters.cluster import of_set
from clusters.member import Member
from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import NO_ANSWER, NetworkFault, Probe
from faults.options import Names, Options


class PartitionOptions(Options):
    """Options of `partition`."""

    against: Names = Field(
        default=(), description="The other side, by comma: members, router, driver; else the others of its set."
    )
    way: Literal["both", "in", "out"] = Field(
        default="both", description="What is held: both ways, what comes to the target, or what it sends."
    )


@register
class Partition(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "partition"
    options: ClassVar[type[Options]] = PartitionOptions
    needs: ClassVar[str] = "a member with a proxy before it (up --proxied)"
    proven_by: ClassVar[str] = "probes that say to be of one side and get no answer from the other"

    @property
    def against(self) -> tuple[str, ...]:
        """The other side, by name."""
        others = (one.name for one in of_set(self.cluster, self.target.spec.set_name))
        return self.given.against or tuple(one for one in others if one != self.target.name)

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
