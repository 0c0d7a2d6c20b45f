"""Collections under another name, of another kind, with a longer shard key; databases on another shard.

Each goes to the database's primary shard, which coordinates it. Chunks and zones are elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.router import refusals
from clusters.router.batch import write_concern
from clusters.router.catalog import MAJORITY, Catalog
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.owners import Owners
from clusters.router.primaries import DatabasePrimaries, split_namespace, without_context


class Collections:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog
        self._primaries = DatabasePrimaries(members, catalog)
        self._owners = Owners(members, catalog)

    async def rename(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """renameCollection, of sharded ones too; both databases must have one primary shard."""
        refusals.on_admin_alone(command)
        source, target = command["renameCollection"], command["to"]
        if source == target:
            raise RouterError(20, "IllegalOperation", "Can't rename a collection to itself")
        name, collection = split_namespace(source)
        split_namespace(target)
        database = await self._primaries.database(name, create=False)
        fields = {one: command[one] for one in ("dropTarget", "stayTemp") if one in command}
        try:
            await self._primaries.run(
                database, {"_shardsvrRenameCollection": collection, "to": target, **fields}, MAJORITY
            )
        finally:
            self._catalog.forget(source)
            self._catalog.forget(target)
        return {"ok": 1.0}

    async def convert_to_capped(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name, collection = command["$db"], command["convertToCapped"]
        route = await self._owners.route(name, collection)
        if route.table is not None:
            raise RouterError(20, "IllegalOperation", "You can't convertToCapped a sharded collection")
        body = {**without_context(command), "writeConcern": write_concern(command)}
        (reply,) = (await self._owners.ask(name, collection, body)).values()
        return reply

    async def refine_shard_key(self, command: Mapping[str, Any]) -> dict[str, Any]:
        refusals.on_admin_alone(command)
        namespace = command["refineCollectionShardKey"]
        name, collection = split_namespace(namespace)
        database = await self._primaries.database(name, create=False)
        body = {"_shardsvrRefineCollectionShardKey": collection, "newShardKey": command["key"]}
        try:
            await self._primaries.run(database, body, MAJORITY)
        finally:
            self._catalog.forget(namespace)
        return {"ok": 1.0}

    async def move_primary(self, command: Mapping[str, Any]) -> dict[str, Any]:
        refusals.on_admin_alone(command)
        name, to = command["movePrimary"], command.get("to")
        self._catalog.forget_database(name)
        database = await self._primaries.database(name, create=False)
        if not isinstance(to, str) or to not in await self._members.shards():
            raise RouterError(70, "ShardNotFound", f"expected a shard of config.shards to move to, found {to!r}")
        body = {"_shardsvrMovePrimary": name, "to": to, "databaseVersion": database.version, **MAJORITY}
        try:
            await self._members.shard_command(database.primary, "admin", body, deadline=DDL_DEADLINE)
        finally:
            self._catalog.forget_database(name)
        return {"ok": 1.0}
