"""What there is: databases, collections, indexes, shards.

Collections and indexes are told by a shard that has them, in its own words. Changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bson.int64 import Int64

from clusters.router.catalog import CONFIG_DATABASES, Catalog
from clusters.router.errors import RouterError
from clusters.router.members import COMMAND_DEADLINE, CONFIG_SHARD, FIND_DEADLINE, Members
from clusters.router.passing import Passing
from clusters.router.replies import encode_reply
from clusters.router.router_host import RouterHost
from clusters.wire.message import Message


class Listings:
    def __init__(self, members: Members, catalog: Catalog, passing: Passing, host: RouterHost) -> None:
        self._members = members
        self._catalog = catalog
        self._passing = passing
        self._host_process = host

    async def list_shards(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        return {"shards": await self._members.config_find("shards", {}), "ok": 1.0}

    async def list_databases(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Of all shards, sizes added up; admin and config as the config servers have them, local not at all."""
        if not isinstance(command.get("filter") or {}, Mapping):
            raise RouterError(
                14, "TypeMismatch", "BSON field 'listDatabases.filter' is the wrong type, expected object"
            )
        ask = {"listDatabases": 1, **{one: command[one] for one in ("comment",) if one in command}}
        shards = [CONFIG_SHARD, *await self._members.shards()]
        replies = await asyncio.gather(*(self._list_on(shard, ask) for shard in shards))
        found: dict[str, dict[str, Any]] = {}
        for shard, reply in zip(shards, replies, strict=True):
            for one in reply["databases"]:
                name = one["name"]
                if name == "local" or (name in CONFIG_DATABASES) != (shard == CONFIG_SHARD):
                    continue
                entry = found.setdefault(name, {"name": name})
                entry["sizeOnDisk"] = Int64(entry.get("sizeOnDisk", 0) + one["sizeOnDisk"])
                entry["empty"] = entry.get("empty", True) and one["empty"]
                entry.setdefault("shards", {})[shard] = one["sizeOnDisk"]
        databases = [found[name] for name in sorted(found)]
        if command.get("filter"):
            # Sizes are matched as they are told: those of all shards together.
            databases = await self._host_process.compute(databases, [{"$match": command["filter"]}])
        if command.get("nameOnly"):
            return {"databases": [{"name": one["name"]} for one in databases], "ok": 1.0}
        total = sum(one.get("sizeOnDisk", 0) for one in databases)
        return {"databases": databases, "totalSize": Int64(total), "totalSizeMb": Int64(total >> 20), "ok": 1.0}

    async def list_collections(self, message: Message) -> bytes:
        """By the database's primary shard, which knows the sharded ones too."""
        command = message.document()
        database = command["$db"]
        shard = CONFIG_SHARD if database in CONFIG_DATABASES else await self._primary_shard(database)
        if shard is None:
            empty = {"id": Int64(0), "ns": f"{database}.$cmd.listCollections", "firstBatch": []}
            return encode_reply({"cursor": empty, "ok": 1.0}, message.request_id, self._members.monitor.cluster_time())
        return await self._passing.to_member(await self._host(shard, command), message)

    async def list_indexes(self, message: Message) -> bytes:
        """By the first shard that owns a chunk, or the database's primary."""
        command = message.document()
        database, collection = command["$db"], command["listIndexes"]
        if database in CONFIG_DATABASES:
            shard: str | None = CONFIG_SHARD
        else:
            table = await self._catalog.table(f"{database}.{collection}")
            shard = await self._primary_shard(database) if table is None else table.owners[0]
        if shard is None:
            raise RouterError(26, "NamespaceNotFound", f"ns does not exist: {database}.{collection}")
        return await self._passing.to_member(await self._host(shard, command), message)

    async def _host(self, shard: str, command: Mapping[str, Any]) -> str:
        preference = command.get("$readPreference") or {"mode": "primary"}
        return await self._members.monitor.select(await self._members.set_of(shard), preference, deadline=FIND_DEADLINE)

    async def _primary_shard(self, database: str) -> str | None:
        self._catalog.forget_database(database)
        found = await self._catalog.database(database)
        return None if found is None else found.primary

    async def _list_on(self, shard: str, ask: Mapping[str, Any]) -> dict[str, Any]:
        host = await self._members.primary_of(shard)
        async with self._members.plain.to(host).connection() as connection:
            return await connection.command("admin", ask, deadline=COMMAND_DEADLINE)
