"""`swallow`: a request reaches the node and its reply never comes; the connection stays, others work.

With `commands=aggregate` and `source=` the member that looks up it is what production saw: heartbeats and monitors find
everybody healthy. At the heal the connections that miss a reply are reset, for nobody sends it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import NO_ANSWER, MessageOptions, NetworkFault, Probe
from faults.options import Options


@register
class Swallow(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "swallow"
    options: ClassVar[type[Options]] = MessageOptions
    spares_health: ClassVar[bool] = True

    def rules(self) -> Sequence[Rule]:
        return [self.rule(Kind.SWALLOW)]

    async def effect(self, probe: Probe) -> str:
        if not await probe.silent():
            raise Unproven(f"{self.target.name} answers")
        return f"what {self.target.name} was asked is not answered within {NO_ANSWER:g} s"
