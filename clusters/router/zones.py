"""Zones: which shard is in which, and which ranges of a collection's shard key belong to one.

The config servers hold and check them; a mongos passes these commands on, and so does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router.catalog import MAJORITY
from clusters.router.members import DDL_DEADLINE, Members

_FIELDS: Final = {
    "addShardToZone": ("zone",),
    "removeShardFromZone": ("zone",),
    "updateZoneKeyRange": ("min", "max", "zone"),
}


class Zones:
    def __init__(self, members: Members) -> None:
        self._members = members

    async def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """addShardToZone, removeShardFromZone, updateZoneKeyRange (`zone: null` takes a range out of its zone)."""
        name = next(iter(command))
        form = "_configsvr" + name[0].upper() + name[1:]
        fields = {one: command[one] for one in _FIELDS[name]}
        await self._members.config_command({form: command[name], **fields, **MAJORITY}, deadline=DDL_DEADLINE)
        return {"ok": 1.0}
