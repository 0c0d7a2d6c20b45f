"""`cut`: connections to a node are reset: those of now, or with commands whenever such a request comes.

New ones work, so that a driver resumes at once. Proven by a probe whose connection breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.connection import ConnectionLost
from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import MessageOptions, NetworkFault, Probe
from faults.options import Options


@register
class Cut(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "cut"
    options: ClassVar[type[Options]] = MessageOptions

    def rules(self) -> Sequence[Rule]:
        return [self.rule(Kind.CUT)]

    async def effect(self, probe: Probe) -> str:
        try:
            await probe.silent()
        except ConnectionLost:
            return f"a connection to {self.target.name} is reset"
        raise Unproven(f"a connection to {self.target.name} is not broken")
