"""`move-tags`: tags taken from one member and given to another of its set, so that tagged reads go elsewhere.

Cursors stay where they are: a change stream that was opened by tag goes on, while its lookups go to the member that
bears the tag now. Proven by the configurations that the two members themselves have installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from clusters.cluster import of_set, primary_of
from clusters.guard import Undo
from clusters.member import Member
from faults.base import Evidence, Site, register
from faults.configuration import FieldsOfMembers
from faults.options import Options, Tags


class MoveTagsOptions(Options):
    """Options of `move-tags`."""

    tags: Tags = Field(default_factory=dict, description="Those to move, as K=V; else all that it bears.")
    to: str | None = Field(
        default=None, description="The member of its set that gets them; else a secondary that bears none of them."
    )


@register
class MoveTags:
    """Move tags from one member to another; see the module."""

    name: ClassVar[str] = "move-tags"
    options: ClassVar[type[Options]] = MoveTagsOptions
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a member that bears tags, in a set of at least two"
    proven_by: ClassVar[str] = "the configurations that the two members have installed"
    healed_by: ClassVar[str] = "both bear the tags that they bore"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._cluster = site.cluster
        self._options: MoveTagsOptions = options or MoveTagsOptions()
        self._fields = FieldsOfMembers(site)
        self._told = ""

    async def available(self) -> str | None:
        if reason := await self._fields.configuration.obstacle(primary=True):
            return reason
        members = await self._fields.configuration.members()
        bears = dict(members[self.target.host].get("tags", {}))
        moved = self._options.tags or bears
        if not moved or any(bears.get(key) != value for key, value in moved.items()):
            return f"{self.target.name} does not bear {_words(moved) or 'any tag'}: it bears {_words(bears) or 'none'}"
        heir = await self._heir(members, moved)
        if heir is None:
            return f"no member of {self.target.spec.set_name} can get {_words(moved)} from {self.target.name}" + (
                f": {self._options.to} is not another one of it" if self._options.to else ""
            )
        left = {key: value for key, value in bears.items() if key not in moved}
        gets = {**members[heir.host].get("tags", {}), **moved}
        self._fields.plan(members, {self.target.host: {"tags": left}, heir.host: {"tags": gets}})
        self._told = f"{heir.name} bears {_words(moved)}, and {self.target.name} bears {_words(left) or 'no tag'}"
        return None

    def undo(self) -> Sequence[Undo]:
        return self._fields.undo()

    async def inject(self) -> None:
        await self._fields.on()

    async def proof(self) -> Evidence:
        await self._fields.proven()
        return Evidence(f"as they themselves say, {self._told}", {"tags": self._fields.wanted})

    async def active(self) -> bool:
        return await self._fields.is_on()

    async def heal(self) -> None:
        await self._fields.off()

    async def _heir(self, members: dict[str, dict[str, Any]], moved: dict[str, str]) -> Member | None:
        primary = await primary_of(self._cluster, self.target.spec.set_name)
        others = [one for one in of_set(self._cluster, self.target.spec.set_name) if one is not self.target]
        # Tagged reads are a secondary's more often than not: the primary comes last.
        others = sorted((one for one in others if one.host in members), key=lambda one: one is primary)
        if self._options.to is not None:
            others = [one for one in others if one.name == self._options.to]
        else:
            others = [one for one in others if not moved.items() & members[one.host].get("tags", {}).items()]
        return others[0] if others else None


def _words(tags: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in tags.items())
