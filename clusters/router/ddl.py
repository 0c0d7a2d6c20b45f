"""Databases and collections come and go, as a 6.0 mongos sends it on.

Each goes to the config primary or to the shard that coordinates it; indexes are in `indexes`, chunks in `sharding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.quirks import Quirks
from clusters.router.catalog import MAJORITY, Catalog
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.primaries import DatabasePrimaries, without_context
from clusters.router.router_host import RouterHost


class Ddl:
    def __init__(self, members: Members, catalog: Catalog, host: RouterHost, server: Quirks) -> None:
        self._members = members
        self._catalog = catalog
        self._host = host
        self._server = server
        self._primaries = DatabasePrimaries(members, catalog)

    async def create(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """An unsharded collection or a view, on the database's primary shard."""
        database = await self._primaries.database(command["$db"], create=True)
        return await self._primaries.run(database, without_context(command), command)

    async def drop(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database = await self._catalog.database(command["$db"])
        if database is None:
            raise RouterError(26, "NamespaceNotFound", "ns not found")
        try:
            if self._server.ddl_on_shards:
                await self._primaries.run(database, {"_shardsvrDropCollection": command["drop"]}, {})
            else:
                namespace = f"{command['$db']}.{command['drop']}"
                await self._members.config_command(
                    {"_configsvrDropCollection": namespace, **MAJORITY}, deadline=DDL_DEADLINE
                )
        finally:
            self._catalog.forget(f"{command['$db']}.{command['drop']}")
        return {"ok": 1.0}

    async def drop_database(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name = command["$db"]
        if command["dropDatabase"] != 1:
            raise RouterError(5255100, "Location5255100", "Have to pass 1 as 'drop' parameter")
        self._catalog.forget_database(name)
        database = await self._catalog.database(name)
        if database is None:
            return {"info": "database does not exist", "ok": 1.0}
        try:
            if self._server.ddl_on_shards:
                await self._primaries.run(database, {"_shardsvrDropDatabase": 1}, {})
            else:
                await self._members.config_command({"_configsvrDropDatabase": name, **MAJORITY}, deadline=DDL_DEADLINE)
        finally:
            self._catalog.forget_database(name)
        return {"dropped": name, "ok": 1.0}

    async def enable_sharding(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name, chosen = command["enableSharding"], command.get("primaryShard")
        how = "_configsvrCreateDatabase" if self._server.create_with_primary else "_configsvrEnableSharding"
        field = "primaryShardId" if self._server.create_with_primary else "primaryShard"
        primary = {} if chosen is None else {field: chosen}
        await self._members.config_command({how: name, **primary, **self._server.create_database, **MAJORITY})
        self._catalog.forget_database(name)
        return {"ok": 1.0}

    async def flush_router_config(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        """The router's own catalog and that of the router host's process."""
        self._catalog.forget_all()
        await self._host.ask("admin", {"flushRouterConfig": 1}, deadline=DDL_DEADLINE)
        return {"flushed": True, "ok": 1.0}
