"""Indexes and options of collections: createIndexes, dropIndexes, collMod, and what belongs to plan caches.

createIndexes goes to the owning shards from here, as a mongos sends it; the others a database's primary coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.quirks import Quirks
from clusters.router.batch import write_concern
from clusters.router.catalog import Catalog
from clusters.router.members import Members
from clusters.router.owners import Owners, failure
from clusters.router.primaries import DatabasePrimaries, without_context


class Indexes:
    def __init__(self, members: Members, catalog: Catalog, server: Quirks) -> None:
        self._server = server
        self._primaries = DatabasePrimaries(members, catalog)
        self._owners = Owners(members, catalog)

    async def create(self, command: Mapping[str, Any]) -> dict[str, Any]:
        body = {**without_context(command), "writeConcern": write_concern(command)}
        replies = await self._owners.ask(command["$db"], command["createIndexes"], body, create=True)
        return await self._owners.raw(replies)

    async def drop(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._coordinated(command, "_shardsvrDropIndexes")

    async def collection_options(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """collMod."""
        if not self._server.coll_mod_on_primary:
            body = {**without_context(command), "writeConcern": write_concern(command)}
            return await self._owners.raw(await self._owners.ask(command["$db"], command["collMod"], body))
        return await self._coordinated(command, "_shardsvrCollMod")

    async def plan_cache(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """planCacheClear and the index filters: every owning shard's, each under its shard's name."""
        name = next(iter(command))
        replies = await self._owners.ask(command["$db"], command[name], without_context(command))
        return failure(replies) or {**replies, "ok": 1.0}

    async def _coordinated(self, command: Mapping[str, Any], form: str) -> dict[str, Any]:
        name = next(iter(command))
        database = await self._primaries.database(command["$db"], create=False)
        fields = {one: value for one, value in without_context(command).items() if one != name}
        return await self._primaries.run(database, {form: command[name], **fields}, command)
