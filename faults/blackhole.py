"""`blackhole`: connections to a node stay and nothing passes; what was held comes, in order, at the heal.

As where packets are dropped: nobody is told anything, and TCP sends again. Proven by a probe that gets no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import NO_ANSWER, MessageOptions, NetworkFault, Probe
from faults.options import Options


@register
class Blackhole(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "blackhole"
    options: ClassVar[type[Options]] = MessageOptions
    spares_health: ClassVar[bool] = False

    def rules(self) -> Sequence[Rule]:
        return [self.rule(Kind.BLACKHOLE)]

    async def effect(self, probe: Probe) -> str:
        if not await probe.silent():
            raise Unproven(f"{self.target.name} answers")
        return f"{self.target.name} does not answer within {NO_ANSWER:g} s"
