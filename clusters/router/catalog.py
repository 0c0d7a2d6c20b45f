"""The routing table as the config servers have it: databases, collections, chunks, shards and their versions.

Read on demand and again when a shard says it is stale. Decides nothing about commands; `targeting` and `writes` do.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from clusters.quirks import Quirks, VersionForm
from clusters.router.errors import RouterError
from clusters.router.members import CONFIG_SHARD, Members
from clusters.router.order import Key, document_key

STALE: Final = frozenset((13388, 249, 304, 63))
"""StaleConfig, StaleDbVersion, ShardInvalidatedForTargeting: read the catalog again, then send again. And
StaleShardVersion, which is what write errors of servers before 6.0 have in the place of the first."""

STALE_DEADLINE: Final = 60.0
"""Seconds of stale answers without progress; then 82 NoProgressMade, as mongos."""

READ_DEADLINE: Final = 10.0

CONFIG_DATABASES: Final = ("admin", "config")
"""Those that the config servers hold."""

MAJORITY: Final = {"writeConcern": {"w": "majority", "wtimeout": 60_000}}

_NEVER: Final = Timestamp(0, 0)
_NO_EPOCH: Final = ObjectId(b"\x00" * 12)


def shard_version(form: VersionForm, version: Timestamp, epoch: ObjectId, timestamp: Timestamp) -> Any:
    """`shardVersion` as servers of this form read it."""
    if form == "document":
        return {"t": timestamp, "e": epoch, "v": version}
    return [version, epoch] if form == "pair" else [version, epoch, timestamp]


@dataclass(frozen=True, slots=True)
class Database:
    """A database: the shard that holds its unsharded collections, and its version as commands carry it."""

    name: str
    primary: str
    version: Mapping[str, Any]
    form: VersionForm = "document"


@dataclass(frozen=True, slots=True)
class Table:
    """A sharded collection: chunk i is `[lower[i], lower[i + 1])` and lies on `owners[i]`."""

    namespace: str
    epoch: ObjectId
    timestamp: Timestamp
    key: Mapping[str, Any]
    collation: Mapping[str, Any] | None
    bounds: tuple[Mapping[str, Any], ...]
    """The chunks' `min` documents; `top` is the last one's `max`."""
    top: Mapping[str, Any]
    lower: tuple[Key, ...]
    owners: tuple[str, ...]
    versions: Mapping[str, Timestamp]
    """Shard -> the highest version of a chunk on it."""
    form: VersionForm = "document"

    @property
    def hashed_field(self) -> str | None:
        """The one field of the key that chunks know by its hash."""
        return next((name for name, kind in self.key.items() if kind == "hashed"), None)

    @property
    def shards(self) -> tuple[str, ...]:
        """Those that own a chunk, in order of their first."""
        return tuple(dict.fromkeys(self.owners))

    def chunk_of(self, values: tuple[Any, ...]) -> int:
        """The chunk that holds a shard key value; of a hashed field, its hash."""
        return max(0, bisect_right(self.lower, document_key(values)) - 1)

    def bounds_of(self, chunk: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """A chunk's `min` and `max` documents."""
        return self.bounds[chunk], self.bounds[chunk + 1] if chunk + 1 < len(self.bounds) else self.top

    def owner(self, values: tuple[Any, ...]) -> str:
        return self.owners[self.chunk_of(values)]

    def shard_version(self, shard: str) -> Any:
        """`shardVersion` for a command to that shard."""
        return shard_version(self.form, self.versions.get(shard, _NEVER), self.epoch, self.timestamp)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a namespace lies, as of one read of the catalog. No table: not sharded, or the config servers' own."""

    database: Database
    table: Table | None

    def versions(self, shard: str) -> dict[str, Any]:
        """What a command to that shard says of the router's knowledge."""
        if self.database.primary == CONFIG_SHARD:
            return {}
        if self.table is None:
            unsharded = shard_version(self.database.form, _NEVER, _NO_EPOCH, _NEVER)
            return {"shardVersion": unsharded, "databaseVersion": self.database.version}
        return {"shardVersion": self.table.shard_version(shard)}


class Patience:
    """How long stale answers are borne with: the shard may know of a change before the config servers' readers do."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._give_up = time.monotonic() + STALE_DEADLINE
        self._pause = 0.0

    async def wait(self) -> None:
        """Before the catalog is read again, longer each time. Raises RouterError 82 after STALE_DEADLINE."""
        if time.monotonic() > self._give_up:
            raise RouterError(
                82,
                "NoProgressMade",
                f"the shards call the stand-in router stale on {self._namespace} for {STALE_DEADLINE:g} s;"
                " compare config.chunks with what they report",
            )
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2 or 0.01, 0.5)


def build_table(
    collection: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]], form: VersionForm = "document"
) -> Table | None:
    """The table from its documents in config.collections and config.chunks.

    None where the chunks do not add up to the whole key range: so looks a read between a drop and a new creation.
    """
    names = tuple(collection["key"])
    rows = sorted(
        ((document_key(tuple(one["min"].values())), document_key(tuple(one["max"].values())), one) for one in chunks),
        key=lambda row: row[0],
    )
    if not rows or any(before[1] != after[0] for before, after in pairwise(rows)):
        return None
    if any(part != (0,) for part in rows[0][0]) or any(part != (127,) for part in rows[-1][1]):
        return None
    versions: dict[str, Timestamp] = {}
    for _low, _high, chunk in rows:
        shard = chunk["shard"]
        versions[shard] = max(versions.get(shard, Timestamp(0, 0)), chunk["lastmod"])
    return Table(
        namespace=collection["_id"],
        epoch=collection["lastmodEpoch"],
        timestamp=collection.get("timestamp", _NEVER),
        key={name: collection["key"][name] for name in names},
        collation=collection.get("defaultCollation") or None,
        bounds=tuple(row[2]["min"] for row in rows),
        top=rows[-1][2]["max"],
        lower=tuple(row[0] for row in rows),
        owners=tuple(row[2]["shard"] for row in rows),
        versions=versions,
        form=form,
    )


class Catalog:
    """What is known of the config servers' catalog. One refresh of a thing at a time; others wait for it."""

    def __init__(self, members: Members, server: Quirks | None = None) -> None:
        self._members = members
        self._server = server or Quirks()
        self._databases: dict[str, Database] = {}
        self._tables: dict[str, Table | None] = {}
        self._refreshing: dict[str, asyncio.Task[Any]] = {}

    async def database(self, name: str, *, create: bool = False) -> Database | None:
        """The database, made by the config server if `create`; None if there is none."""
        known = self._databases.get(name)
        if known is not None:
            return known
        found: Database | None = await self._once(f"database {name}", lambda: self._read_database(name))
        if found is None and create:
            await self._members.config_command({"_configsvrCreateDatabase": name, **MAJORITY})
            found = await self._once(f"database {name}", lambda: self._read_database(name))
        return found

    async def table(self, namespace: str) -> Table | None:
        """The routing table of a sharded collection, None for any other."""
        if namespace in self._tables:
            return self._tables[namespace]
        found: Table | None = await self._once(namespace, lambda: self._read_table(namespace))
        return found

    async def route(self, database: str, collection: str, *, create: bool = False) -> Route | None:
        """Where a collection lies, whether it exists or not; None where its database does not (see `database`)."""
        if database in CONFIG_DATABASES:
            return Route(Database(database, CONFIG_SHARD, {}), None)
        found = await self.database(database, create=create)
        return None if found is None else Route(found, await self.table(f"{database}.{collection}"))

    async def chunks(self, namespace: str) -> list[dict[str, Any]]:
        """The chunks of a sharded collection as config.chunks has them, read now."""
        (collection,) = await self._members.config_find("collections", {"_id": namespace})
        return await self._chunks_of(collection)

    def forget(self, namespace: str) -> None:
        """A shard called us stale on this collection: read it, and its database, again when next asked."""
        self._tables.pop(namespace, None)
        self._databases.pop(namespace.partition(".")[0], None)

    def forget_database(self, name: str) -> None:
        self._databases.pop(name, None)
        for namespace in [one for one in self._tables if one.startswith(name + ".")]:
            del self._tables[namespace]

    def forget_all(self) -> None:
        self._databases.clear()
        self._tables.clear()

    async def databases(self) -> list[Database]:
        """Every database, read now."""
        return [self._database(one) for one in await self._members.config_find("databases", {})]

    async def _once(self, name: str, read: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        task = self._refreshing.get(name)
        if task is None:
            task = asyncio.create_task(read(), name=f"refresh {name}")
            self._refreshing[name] = task
            task.add_done_callback(lambda _done: self._refreshing.pop(name, None))
        # Shielded: one client that goes away must not end the refresh that others wait for.
        return await asyncio.shield(task)

    async def _read_database(self, name: str) -> Database | None:
        found = await self._members.config_find("databases", {"_id": name})
        if not found:
            return None
        database = self._databases[name] = self._database(found[0])
        return database

    async def _read_table(self, namespace: str) -> Table | None:
        try:
            async with asyncio.timeout(READ_DEADLINE):
                while True:
                    collections = await self._members.config_find("collections", {"_id": namespace})
                    if not collections or collections[0].get("dropped"):
                        self._tables[namespace] = None
                        return None
                    chunks = await self._chunks_of(collections[0])
                    table = build_table(collections[0], chunks, self._server.version_form)
                    if table is not None:
                        self._tables[namespace] = table
                        return table
                    await asyncio.sleep(0.05)  # a drop or creation is half done; nothing tells when it is over
        except TimeoutError:
            raise RouterError(
                50,
                "MaxTimeMSExpired",
                f"the stand-in router read no complete set of chunks of {namespace} within {READ_DEADLINE:g} s",
            ) from None

    async def _chunks_of(self, collection: Mapping[str, Any]) -> list[dict[str, Any]]:
        # With timestamps came chunks that know their collection by its UUID (5.0).
        by_uuid = "timestamp" in collection
        of_it = {"uuid": collection["uuid"]} if by_uuid else {"ns": collection["_id"]}
        return await self._members.config_find("chunks", of_it)

    def _database(self, document: Mapping[str, Any]) -> Database:
        return Database(document["_id"], document["primary"], document["version"], self._server.version_form)
