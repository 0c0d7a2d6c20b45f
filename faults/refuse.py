"""`refuse`: new connections to a node are reset, those of now work; as where it takes in nobody more.

Proven by a probe that cannot connect, while one connected before gets its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.connection import ConnectionLost
from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import NetworkFault, Probe


@register
class Refuse(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "refuse"

    def rules(self) -> Sequence[Rule]:
        return [self.rule(Kind.REFUSE)]

    async def effect(self, probe: Probe) -> str:
        took = await probe.ask()
        try:
            await probe.connect()
        except ConnectionLost:
            return f"{self.target.name} answers a connection of before in {took:.3f} s, and a new one is reset"
        raise Unproven(f"{self.target.name} takes a new connection")
