"""`hide-member`: a secondary that is hidden from its clients, as one is for maintenance; it goes on replicating.

A hidden member has priority 0 and is in no hello, so that drivers forget it, a router's lookups included; who is
connected to it by its own address notices nothing. Proven by its own configuration and by what the primary says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from clusters.cluster import primary_of
from clusters.guard import Undo
from faults.base import Evidence, Site, Unproven, register
from faults.configuration import FieldsOfMembers
from faults.direct import ask
from faults.options import Options


@register
class HideMember:
    """Hide one secondary; see the module."""

    name: ClassVar[str] = "hide-member"
    options: ClassVar[type[Options]] = Options
    # Its peers find it healthy; monitors forget it.
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a secondary that is not hidden"
    proven_by: ClassVar[str] = "its own configuration, and a hello of the primary in which it is not"
    healed_by: ClassVar[str] = "seen again, with the priority it had"
    aim: ClassVar[str] = "secondary"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._cluster = site.cluster
        self._fields = FieldsOfMembers(site)

    async def available(self) -> str | None:
        if reason := await self._fields.configuration.obstacle():
            return reason
        members = await self._fields.configuration.members()
        if members[self.target.host].get("hidden"):
            return f"{self.target.name} is hidden already, and not by this run"
        self._fields.plan(members, {self.target.host: {"hidden": True, "priority": 0}})
        return None

    def undo(self) -> Sequence[Undo]:
        return self._fields.undo()

    async def inject(self) -> None:
        await self._fields.on()

    async def proof(self) -> Evidence:
        await self._fields.proven()
        primary = await primary_of(self._cluster, self.target.spec.set_name)
        shown = _shown(await ask(primary, {"hello": 1}))
        if self.target.host in shown:
            raise Unproven(f"{primary.name} still tells its clients of {self.target.name}")
        return Evidence(
            f"{self.target.name} says that it is hidden; {primary.name} tells its clients of {', '.join(shown)}",
            {"hosts": shown},
        )

    async def active(self) -> bool:
        return await self._fields.is_on()

    async def heal(self) -> None:
        await self._fields.off()


def _shown(hello: dict[str, Any]) -> list[str]:
    return [*hello.get("hosts", ()), *hello.get("passives", ())]
