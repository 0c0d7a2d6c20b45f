"""What a mongos tells of the cluster it knows: which hosts are whose, and how new its view of a collection is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.router.catalog import Catalog
from clusters.router.errors import RouterError
from clusters.router.members import CONFIG_SHARD, Members
from clusters.router.owners import Owners


class ShardMap:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog
        self._owners = Owners(members, catalog)

    async def shard_map(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        named = await self._owners.connection_strings()
        hosts = {host: shard for shard, host in await self._members.all_hosts()}
        return {"map": named, "hosts": hosts, "connStrings": {one: shard for shard, one in named.items()}, "ok": 1.0}

    async def shard_version(self, command: Mapping[str, Any]) -> dict[str, Any]:
        namespace = command["getShardVersion"]
        table = await self._catalog.table(namespace)
        if table is None:
            raise RouterError(118, "NamespaceNotSharded", f"Collection {namespace} is not sharded.")
        return {
            "version": max(table.versions.values()),
            "versionEpoch": table.epoch,
            "versionTimestamp": table.timestamp,
            "ok": 1.0,
        }

    async def net_stat(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        named = await self._owners.connection_strings()
        return {"configserver": named[CONFIG_SHARD], "isdbgrid": 1, "ok": 1.0}
