"""`half-open`: connections of now lead nowhere and neither side is told; new ones work.

As where a firewall or a load balancer forgot them. At the heal they are reset. Proven by a probe connected before that
gets no answer, and one connected since that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import NO_ANSWER, NetworkFault, Probe


@register
class HalfOpen(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "half-open"

    def rules(self) -> Sequence[Rule]:
        return [self.rule(Kind.HALF_OPEN)]

    async def effect(self, probe: Probe) -> str:
        if not await probe.silent():
            raise Unproven(f"{self.target.name} answers on a connection of before")
        await probe.connect()
        took = await probe.ask()
        return f"{self.target.name} answers a new connection in {took:.3f} s, one of before not in {NO_ANSWER:g} s"
