"""`cut`: connections to a node are reset: those of now, or with commands whenever such a request comes.

New ones work, so that a driver resumes at once. Proven by a probe whose connection breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clusters.wire.proxy.client import Kind, Rule
from faults.base import Unproven, register
from faults.network import MessageOptions, NetworkFault, Probe, broken, names
from faults.options import Options


@register
class Cut(NetworkFault):
    """See the module."""

    name: ClassVar[str] = "cut"
    options: ClassVar[type[Options]] = MessageOptions

    def rules(self) -> Sequence[Rule]:
        given: MessageOptions = self.given
        return [
            Rule(
                Kind.CUT,
                to=(self.target.name,),
                source=self.sources,
                commands=names(given.commands),
                namespace=given.namespace,
            )
        ]

    async def effect(self, probe: Probe) -> str:
        if not await broken(probe):
            raise Unproven(f"a connection to {self.target.name} is not broken")
        return f"a connection to {self.target.name} is reset"
