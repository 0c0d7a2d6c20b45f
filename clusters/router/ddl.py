"""Commands that change what there is: databases, collections, indexes. As a 6.0 mongos sends them on.

Each goes to the config primary or to the shard that coordinates it; chunks are in `sharding`, zones in `zones`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from clusters.router.batch import write_concern
from clusters.router.catalog import MAJORITY, STALE, Catalog, Patience, Route
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.primaries import DatabasePrimaries, plain, without_context
from clusters.router.router_host import RouterHost
from clusters.wire.connection import CommandFailed


class Ddl:
    def __init__(self, members: Members, catalog: Catalog, host: RouterHost) -> None:
        self._members = members
        self._catalog = catalog
        self._host = host
        self._primaries = DatabasePrimaries(members, catalog)

    async def create(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """An unsharded collection or a view, on the database's primary shard."""
        database = await self._primaries.database(command["$db"], create=True)
        return await self._primaries.run(database, without_context(command), command)

    async def create_indexes(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._on_owners(command, create=True)

    async def drop_indexes(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._on_owners(command, create=False)

    async def drop(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database = await self._catalog.database(command["$db"])
        if database is None:
            raise RouterError(26, "NamespaceNotFound", "ns not found")
        try:
            await self._primaries.run(database, {"_shardsvrDropCollection": command["drop"]}, {})
        finally:
            self._catalog.forget(f"{command['$db']}.{command['drop']}")
        return {"ok": 1.0}

    async def drop_database(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name = command["$db"]
        self._catalog.forget_database(name)
        database = await self._catalog.database(name)
        if database is None:
            return {"info": "database does not exist", "ok": 1.0}
        try:
            await self._primaries.run(database, {"_shardsvrDropDatabase": 1}, {})
        finally:
            self._catalog.forget_database(name)
        return {"dropped": name, "ok": 1.0}

    async def enable_sharding(self, command: Mapping[str, Any]) -> dict[str, Any]:
        chosen = command.get("primaryShard")
        primary = {} if chosen is None else {"primaryShardId": chosen}
        await self._members.config_command(
            {"_configsvrCreateDatabase": command["enableSharding"], **primary, **MAJORITY}
        )
        return {"ok": 1.0}

    async def balancer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        form = "_configsvrB" + name[1:]
        return await self._members.config_command({form: 1, **MAJORITY}, deadline=DDL_DEADLINE)

    async def flush_router_config(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        """The router's own catalog and that of the router host's process."""
        self._catalog.forget_all()
        await self._host.ask("admin", {"flushRouterConfig": 1}, deadline=DDL_DEADLINE)
        return {"flushed": True, "ok": 1.0}

    async def _on_owners(self, command: Mapping[str, Any], *, create: bool) -> dict[str, Any]:
        """To every shard that owns a chunk, or to the database's primary; with versions, again when one is stale."""
        name = next(iter(command))
        namespace = f"{command['$db']}.{command[name]}"
        body = {**without_context(command), "writeConcern": write_concern(command)}
        patience = Patience(namespace)
        while True:
            database = await self._primaries.database(command["$db"], create=create)
            table = await self._catalog.table(namespace)
            route = Route(database, table)
            shards = (database.primary,) if table is None else table.shards
            try:
                replies = await asyncio.gather(
                    *(
                        self._members.shard_command(
                            shard, database.name, {**body, **route.versions(shard)}, deadline=DDL_DEADLINE
                        )
                        for shard in shards
                    )
                )
            except CommandFailed as error:
                if error.code not in STALE:
                    raise
            else:
                return {"raw": {shard: plain(one) for shard, one in zip(shards, replies, strict=True)}, "ok": 1.0}
            self._catalog.forget(namespace)
            await patience.wait()
