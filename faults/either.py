"""What a proxy before every node can do, or the kernel in the network namespace of a container: the same fault twice.

`by` says who does it; else the kernel does where the target is a container before which no proxy stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from clusters.compose.container import ContainerMember
from clusters.guard import Undo
from faults.base import Evidence, Fault, Site
from faults.options import Options

By = Literal["auto", "proxy", "kernel"]


class ByOptions(BaseModel):
    """The option that both have."""

    by: By = Field(
        default="auto",
        description="The proxy before the node, or the kernel in its container; 'auto': the proxy where there is one.",
    )


class Either:
    """The classes made from it have `name`, `options` and both ways."""

    name: ClassVar[str]
    options: ClassVar[type[Options]]
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a node with a proxy before it (up --proxied), or one that is a container, and root"
    proven_by: ClassVar[str]
    healed_by: ClassVar[str] = "the rule removed, and seen to be gone"
    aim: ClassVar[str] = "any"
    rather_by_proxy: ClassVar[bool] = False
    """Whether kernels are common that cannot do it: a cluster brought up for it has proxies then, containers or not."""
    by_proxy: ClassVar[type[Fault]]
    by_kernel: ClassVar[type[Fault]]

    def __init__(self, site: Site, options: Any = None) -> None:
        given: Any = options or self.options()
        self.target = site.target
        contained = site.cluster.proxy is None and isinstance(site.target, ContainerMember)
        kernel = given.by == "kernel" or (given.by == "auto" and contained)
        self._fault: Fault = (self.by_kernel if kernel else self.by_proxy)(site, given)

    async def available(self) -> str | None:
        return await self._fault.available()

    def undo(self) -> Sequence[Undo]:
        return self._fault.undo()

    async def inject(self) -> None:
        await self._fault.inject()

    async def proof(self) -> Evidence:
        return await self._fault.proof()

    async def active(self) -> bool:
        return await self._fault.active()

    async def heal(self) -> None:
        await self._fault.heal()
