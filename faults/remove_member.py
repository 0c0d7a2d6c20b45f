"""`remove-member`: a secondary taken out of its set's configuration, and in again at the heal, as if replaced.

It keeps its data and answers, in state REMOVED: no reads, no votes, and its clients must go elsewhere. The majority is
one of the members that are left. Proven by its own word, that it is in no set, and by the primary's configuration.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from clusters.guard import AddMember, Undo
from clusters.guard.commands import add
from faults.base import Evidence, HealFailed, Site, Unproven, register
from faults.configuration import INSTALLED_DEADLINE, POLL, UNSEEN, Configuration
from faults.direct import NoAnswer, ask
from faults.options import Options


@register
class RemoveMember:
    """Remove one secondary from its set; see the module."""

    name: ClassVar[str] = "remove-member"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a secondary, in a set of at least three"
    proven_by: ClassVar[str] = "its own word that it is in no set, and the configuration that the primary has"
    healed_by: ClassVar[str] = "in the configuration again, as it was in it, and a secondary by its own word"
    aim: ClassVar[str] = "secondary"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._configuration = Configuration(site)
        self._before: dict[str, Any] = {}

    async def available(self) -> str | None:
        if reason := await self._configuration.obstacle():
            return reason
        members = await self._configuration.members()
        if len(members) < 3:
            return f"{self._configuration.set_name} has {len(members)} members: one without peers would be left"
        self._before = members[self.target.host]
        return None

    def undo(self) -> Sequence[Undo]:
        assert self._before, UNSEEN
        hosts = [host for host in self._configuration.hosts if host != self.target.host]
        return [AddMember(hosts, self._configuration.set_name, self._before)]

    async def inject(self) -> None:
        assert self._before, UNSEEN
        await self._configuration.change(self._without)

    async def proof(self) -> Evidence:
        end = time.monotonic() + INSTALLED_DEADLINE
        while not await self.active():
            if time.monotonic() > end:
                raise Unproven(f"{self.target.name} is still in its set {INSTALLED_DEADLINE:g} s after its removal")
            await asyncio.sleep(POLL)
        left = await self._configuration.members()
        if self.target.host in left:
            raise Unproven(f"{self.target.name} is still in the configuration of {self._configuration.set_name}")
        return Evidence(
            f"{self.target.name} says that it is in no set; {self._configuration.set_name} is {', '.join(left)}",
            {"members": list(left)},
        )

    async def active(self) -> bool:
        try:
            return _in_no_set(await ask(self.target, {"hello": 1}))
        except NoAnswer:
            return False

    async def heal(self) -> None:
        if self._before:
            await self._configuration.put_back(lambda config: add(config, self._before))
        end = time.monotonic() + INSTALLED_DEADLINE
        while self.target.running():
            try:
                if (await ask(self.target, {"hello": 1})).get("setName"):
                    return
            except NoAnswer:
                pass
            if time.monotonic() > end:
                raise HealFailed(f"{self.target.name} is not in its set {INSTALLED_DEADLINE:g} s after it was put back")
            await asyncio.sleep(POLL)

    def _without(self, config: dict[str, Any]) -> bool:
        left = [one for one in config["members"] if one["host"] != self.target.host]
        changed = len(left) < len(config["members"])
        config["members"] = left
        return changed


def _in_no_set(hello: dict[str, Any]) -> bool:
    return bool(hello.get("isreplicaset")) or "setName" not in hello
