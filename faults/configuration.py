"""The configuration of a target's set as a means to break it: fields of members given, and put back as they were.

Read and written through the primary, believed from the members themselves. What a field does, the faults know.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters import admin
from clusters.cluster import of_set, primary_of
from clusters.errors import ClusterError
from clusters.guard import Reconfigure, Undo
from clusters.member import Member
from faults.base import HealFailed, Site, Unproven
from faults.direct import FAILURES, NoAnswer, ask

Fields = Mapping[str, Mapping[str, Any]]
"""Of members by host, as in the configuration."""

INSTALLED_DEADLINE = 30.0
"""Seconds until a member has the new configuration: until its next heartbeat, by default within 2 s."""
POLL = 0.05
UNSEEN = "`available` is asked first: it looks at what the configuration was"


class Configuration:
    """Of the set that the site's target is in."""

    def __init__(self, site: Site) -> None:
        self.cluster = site.cluster
        self.target = site.target
        self.set_name = site.target.spec.set_name

    @property
    def hosts(self) -> list[str]:
        return [member.host for member in of_set(self.cluster, self.set_name)]

    async def obstacle(self, *, primary: bool = False) -> str | None:
        """Why the target cannot be treated apart in it, or None; a primary can, if `primary`."""
        if not self.target.spec.role.is_mongod:
            return f"{self.target.name} is in no replica set"
        try:
            members = await self.members()
            hello = await ask(self.target, {"hello": 1})
        except NoAnswer as error:
            return str(error)
        except (ClusterError, *FAILURES) as error:
            return f"the configuration of {self.set_name} cannot be read: {error}"
        if self.target.host not in members:
            return f"{self.target.name} is not in the configuration of {self.set_name}"
        if hello.get("isWritablePrimary") and not primary:
            return f"{self.target.name} is the primary of {self.set_name}: aim at a secondary"
        return None

    async def members(self) -> dict[str, dict[str, Any]]:
        """As the primary has them, by host."""
        async with admin.connected((await primary_of(self.cluster, self.set_name)).host) as primary:
            return {one["host"]: one for one in (await admin.current_config(primary))["members"]}

    async def installed(self, member: Member) -> dict[str, dict[str, Any]]:
        """As this member has them; empty where it is in no set. Raises NoAnswer."""
        config = (await ask(member, {"replSetGetConfig": 1}))["config"]
        return {one["host"]: one for one in config["members"]}

    async def change(self, alter: Callable[[dict[str, Any]], bool]) -> None:
        """Through the primary, as an operator would: it waits until a majority has it."""
        async with admin.connected((await primary_of(self.cluster, self.set_name)).host) as primary:
            await admin.reconfigure(primary, alter)

    async def put_back(self, alter: Callable[[dict[str, Any]], bool]) -> None:
        """The same, through whoever is primary by then. Raises HealFailed."""

        async def changed() -> bool:
            try:
                await self.change(alter)
            except (ClusterError, *FAILURES):
                return False
            return True

        try:
            await admin.until(f"{self.set_name} is as it was", changed, deadline=INSTALLED_DEADLINE, every=POLL)
        except ClusterError as error:
            raise HealFailed(str(error)) from error


class FieldsOfMembers:
    """Some fields of some members as something that is given and taken back; `plan` it first."""

    def __init__(self, site: Site) -> None:
        self.configuration = Configuration(site)
        self.wanted: Fields = {}
        self._before: Fields = {}

    def plan(self, members: Mapping[str, Mapping[str, Any]], wanted: Fields) -> None:
        """`members` as they are now."""
        self.wanted = wanted
        self._before = {host: {name: members[host].get(name) for name in fields} for host, fields in wanted.items()}

    def undo(self) -> Sequence[Undo]:
        assert self.wanted, UNSEEN
        return [Reconfigure(self.configuration.hosts, self.configuration.set_name, self._before)]

    async def on(self) -> None:
        assert self.wanted, UNSEEN
        await self.configuration.change(lambda config: admin.give(config, self.wanted))

    async def off(self) -> None:
        """Raises HealFailed."""
        await self.configuration.put_back(lambda config: admin.give(config, self._before))

    async def is_on(self) -> bool:
        """Whether the members themselves have it so."""
        return await self._have(self.wanted)

    async def proven(self) -> None:
        """Wait until the members themselves have it so. Raises Unproven."""
        end = time.monotonic() + INSTALLED_DEADLINE
        while not await self.is_on():
            if time.monotonic() > end:
                names = ", ".join(sorted({name for fields in self.wanted.values() for name in fields}))
                raise Unproven(f"not all members have the new {names} {INSTALLED_DEADLINE:g} s after it was installed")
            await asyncio.sleep(POLL)

    async def _have(self, fields: Fields) -> bool:
        members = [one for one in of_set(self.configuration.cluster, self.configuration.set_name) if one.host in fields]
        for member in members:
            try:
                installed = await self.configuration.installed(member)
            except NoAnswer:
                return False
            if any(installed.get(member.host, {}).get(name) != value for name, value in fields[member.host].items()):
                return False
        return True
