"""Sizes and soundness of collections and databases: each shard's own words, put together as a mongos does.

Changes nothing; every figure is a shard's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from clusters.router.catalog import CONFIG_DATABASES, Catalog
from clusters.router.errors import RouterError
from clusters.router.members import CONFIG_SHARD, Members
from clusters.router.owners import Owners, failure
from clusters.router.primaries import split_namespace, without_context

_SIZES: Final = ("size", "storageSize", "freeStorageSize", "totalSize", "totalIndexSize")
_DATABASE_SUMS: Final = (
    "collections", "views", "objects", "avgObjSize", "dataSize", "storageSize", "freeStorageSize", "indexes",
    "indexSize", "indexFreeStorageSize", "totalSize", "totalFreeStorageSize", "fsUsedSize", "fsTotalSize",
)  # fmt: skip


class Stats:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog
        self._owners = Owners(members, catalog)

    async def collection(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """collStats; the shards are asked unscaled, so that the sums are exact before they are scaled."""
        name, collection = command["$db"], next(iter(command.values()))
        scale = _scale(command.get("scale", 1))
        body = {**without_context(command), "scale": 1}
        replies = await self._owners.ask(name, collection, body)
        if failed := failure(replies):
            return failed
        route = await self._owners.route(name, collection)
        shards = list(replies.values())
        size, count = (sum(one.get(field, 0) for one in shards) for field in ("size", "count"))
        indexes: dict[str, int] = {}
        for one in shards:
            for index, bytes_ in one.get("indexSizes", {}).items():
                indexes[index] = indexes.get(index, 0) + bytes_
        return {
            **({"sharded": True} if route.table else {"sharded": False, "primary": route.database.primary}),
            **{one: shards[0][one] for one in ("capped", "timeseries", "max", "maxSize") if one in shards[0]},
            "ns": f"{name}.{collection}",
            "count": count,
            **{one: sum(shard.get(one, 0) for shard in shards) // scale for one in _SIZES},
            "numOrphanDocs": sum(one.get("numOrphanDocs", 0) for one in shards),
            "indexSizes": {index: bytes_ // scale for index, bytes_ in indexes.items()},
            "avgObjSize": size / count if count else 0.0,
            "nindexes": max(one.get("nindexes", 0) for one in shards),
            "scaleFactor": scale,
            "nchunks": len(route.table.owners) if route.table else 1,
            "shards": replies,
            "ok": 1.0,
        }

    async def data_size(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database, collection = split_namespace(next(iter(command.values())))
        replies = await self._owners.ask(database, collection, without_context(command))
        if failed := failure(replies):
            return failed
        return {one: sum(reply[one] for reply in replies.values()) for one in ("size", "numObjects", "millis")} | {
            "ok": 1.0
        }

    async def validate(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Valid if every shard says so."""
        replies = await self._owners.ask(command["$db"], command["validate"], without_context(command))
        error = failure(replies)
        return {
            "raw": {shard: {**one, "valid": bool(one.get("valid"))} for shard, one in replies.items()},
            "valid": all(one.get("valid") for one in replies.values()),
            **({name: error.get(name) for name in ("code", "codeName", "errmsg")} if error else {}),
            "ok": 0.0 if error else 1.0,
        }

    async def database(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """dbStats, of every shard: a database has collections wherever chunks went."""
        name = command["$db"]
        shards = [CONFIG_SHARD] if name in CONFIG_DATABASES else list(await self._members.shards())
        body = {**without_context(command), "dbStats": 1}
        body.pop("dbstats", None)
        replies = dict(
            zip(shards, await asyncio.gather(*(self._owners.one(one, name, body) for one in shards)), strict=True)
        )
        if failed := failure(replies):
            return failed
        named = await self._owners.connection_strings()
        sums = {
            one: sum(reply.get(one, 0) for reply in replies.values())
            for one in _DATABASE_SUMS
            if any(one in reply for reply in replies.values())
        }
        scale = next(iter(replies.values())).get("scaleFactor", 1)
        sums["avgObjSize"] = sums["dataSize"] * scale / sums["objects"] if sums["objects"] else 0.0
        return {
            "raw": {named[shard]: one for shard, one in replies.items()},
            "db": name,
            **sums,
            "scaleFactor": scale,
            "ok": 1.0,
        }


def _scale(asked: Any) -> int:
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        raise RouterError(14, "TypeMismatch", f"BSON field 'collStats.scale' is the wrong type, found {asked!r}")
    if asked < 1:
        raise RouterError(51024, "Location51024", f"BSON field 'scale' value must be >= 1, actual value '{asked}'")
    return int(asked)
