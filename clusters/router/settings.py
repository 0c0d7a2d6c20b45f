"""What is set for the whole cluster: its shards, balancer, default concerns, versions and parameters.

All of it is said to the config primary, as a mongos says it. Where a collection lies is not this file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router import refusals
from clusters.router.catalog import MAJORITY, Catalog
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.primaries import plain, without_context

_FORMS: Final = {
    "addShard": "_configsvrAddShard",
    "balancerCollectionStatus": "_configsvrBalancerCollectionStatus",
    "balancerStart": "_configsvrBalancerStart",
    "balancerStatus": "_configsvrBalancerStatus",
    "balancerStop": "_configsvrBalancerStop",
    "configureCollectionBalancing": "_configsvrConfigureCollectionBalancing",
    "getClusterParameter": "getClusterParameter",
    "getDefaultRWConcern": "getDefaultRWConcern",
    "removeShard": "_configsvrRemoveShard",
    "setAllowMigrations": "_configsvrSetAllowMigrations",
    "setClusterParameter": "_configsvrSetClusterParameter",
    "setDefaultRWConcern": "setDefaultRWConcern",
    "setFeatureCompatibilityVersion": "setFeatureCompatibilityVersion",
    "setUserWriteBlockMode": "_configsvrSetUserWriteBlockMode",
}
"""What a client says, and what the config primary is told."""
SETTINGS: Final = frozenset(_FORMS)

_WITHOUT_WRITE_CONCERN: Final = frozenset(
    ("balancerCollectionStatus", "balancerStart", "balancerStatus", "balancerStop", "configureCollectionBalancing",
     "getClusterParameter", "getDefaultRWConcern", "setClusterParameter")
)  # fmt: skip


class ClusterSettings:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog

    async def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Any of SETTINGS."""
        refusals.on_admin_alone(command)
        name = next(iter(command))
        fields = {one: value for one, value in without_context(command).items() if one not in (name, "inMemory")}
        body = {_FORMS[name]: command[name], **fields}
        if name not in _WITHOUT_WRITE_CONCERN:
            body |= MAJORITY
        reply = await self._members.config_command(body, deadline=DDL_DEADLINE)
        if name in ("addShard", "removeShard"):
            # The set of shards is another one, and databases may have come with it.
            self._catalog.forget_all()
            await self._members.shards()
        return plain(reply)
