"""Commands that change what there is: databases, collections, indexes, chunks. As a 6.0 mongos sends them on.

Each goes to the config primary or to the shard that coordinates it; documents and cursors are elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from clusters.router.batch import write_concern
from clusters.router.catalog import MAJORITY, STALE, Catalog, Database, Patience, Route, Table
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.router_host import RouterHost
from clusters.wire.connection import CommandFailed

INTERRUPTED: Final = 194
"""BalancerInterrupted: what a config primary answers to a move shortly after it became primary; the move is retried."""
MOVE_ATTEMPTS: Final = 10
_ABOUT_COMMAND: Final = frozenset(("lsid", "$clusterTime", "$db", "$readPreference", "writeConcern", "txnNumber"))


def split_namespace(namespace: Any) -> tuple[str, str]:
    """`database.collection` in its parts."""
    database, dot, collection = namespace.partition(".") if isinstance(namespace, str) else ("", "", "")
    if not (database and dot and collection):
        raise RouterError(73, "InvalidNamespace", f"expected database.collection, found {namespace!r}")
    return database, collection


class Ddl:
    def __init__(self, members: Members, catalog: Catalog, host: RouterHost) -> None:
        self._members = members
        self._catalog = catalog
        self._host = host

    async def create(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """An unsharded collection or a view, on the database's primary shard."""
        database = await self._database(command["$db"], create=True)
        return await self._to_primary(database, _without_context(command), command)

    async def create_indexes(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._on_owners(command, create=True)

    async def drop_indexes(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._on_owners(command, create=False)

    async def drop(self, command: Mapping[str, Any]) -> dict[str, Any]:
        database = await self._catalog.database(command["$db"])
        if database is None:
            raise RouterError(26, "NamespaceNotFound", "ns not found")
        try:
            await self._to_primary(database, {"_shardsvrDropCollection": command["drop"]}, {})
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
            await self._to_primary(database, {"_shardsvrDropDatabase": 1}, {})
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

    async def shard_collection(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """By ranges of the key only; the other ways are refused."""
        name, collection = split_namespace(command["shardCollection"])
        key = command.get("key")
        if not isinstance(key, Mapping) or not key or any(one != 1 for one in key.values()):
            raise RouterError(
                115, "CommandNotSupported", f"the stand-in router shards by ranges, fields with 1, only; found {key!r}"
            )
        refused = set(command) - _ABOUT_COMMAND - {"shardCollection", "key", "unique", "comment", "collation"}
        if refused:
            raise RouterError(
                115, "CommandNotSupported", f"the stand-in router does not do shardCollection with {sorted(refused)}"
            )
        database = await self._database(name, create=True)
        fields = {one: command[one] for one in ("unique", "collation") if one in command}
        try:
            await self._to_primary(database, {"_shardsvrCreateCollection": collection, "shardKey": key, **fields}, {})
        finally:
            self._catalog.forget(command["shardCollection"])
        return {"collectionsharded": command["shardCollection"], "ok": 1.0}

    async def split(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """At a given point (`middle`); the server's own choice of one (`find`, `bounds`) is not built."""
        namespace = command["split"]
        table = await self._table(namespace)
        middle = command.get("middle")
        if not isinstance(middle, Mapping) or list(middle) != list(table.key):
            raise RouterError(
                115,
                "CommandNotSupported",
                f"the stand-in router splits at `middle`, a whole shard key; found {middle!r}",
            )
        chunk = table.chunk_of(tuple(middle.values()))
        shard = table.owners[chunk]
        try:
            await self._members.shard_command(
                shard,
                "admin",
                {
                    "splitChunk": namespace,
                    "from": shard,
                    "min": table.bounds[chunk],
                    "max": table.bounds[chunk + 1] if chunk + 1 < len(table.bounds) else table.top,
                    "keyPattern": table.key,
                    "epoch": table.epoch,
                    "timestamp": table.timestamp,
                    "splitKeys": [middle],
                },
                deadline=DDL_DEADLINE,
            )
        finally:
            self._catalog.forget(namespace)
        return {"ok": 1.0}

    async def move_range(self, command: Mapping[str, Any]) -> dict[str, Any]:
        bounds = {one: command[one] for one in ("min", "max") if command.get(one) is not None}
        return await self._move(command["moveRange"], command.get("toShard"), bounds)

    async def move_chunk(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The chunk that holds the shard key of `find`, or that `bounds` names."""
        namespace = command["moveChunk"]
        table = await self._table(namespace)
        if "bounds" in command:
            lower, upper = command["bounds"]
            return await self._move(namespace, command.get("to"), {"min": lower, "max": upper})
        find = command.get("find") or {}
        if not set(table.key) <= set(find):
            raise RouterError(
                61, "ShardKeyNotFound", f"moveChunk wants `bounds`, or the shard key in `find`; got {find!r}"
            )
        chunk = table.chunk_of(tuple(find[name] for name in table.key))
        return await self._move(namespace, command.get("to"), {"min": table.bounds[chunk]})

    async def balancer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        name = next(iter(command))
        form = "_configsvrB" + name[1:]
        return await self._members.config_command({form: 1, **MAJORITY}, deadline=DDL_DEADLINE)

    async def flush_router_config(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        """The router's own catalog and that of the router host's process."""
        self._catalog.forget_all()
        await self._host.ask("admin", {"flushRouterConfig": 1}, deadline=DDL_DEADLINE)
        return {"flushed": True, "ok": 1.0}

    async def _move(self, namespace: str, shard: Any, bounds: Mapping[str, Any]) -> dict[str, Any]:
        await self._table(namespace)
        if "min" not in bounds:
            raise RouterError(9, "FailedToParse", "the stand-in router moves ranges that have a `min`, found none")
        if not isinstance(shard, str) or shard not in await self._members.shards():
            raise RouterError(70, "ShardNotFound", f"expected a shard of config.shards to move to, found {shard!r}")
        move = {"_configsvrMoveRange": namespace, **bounds, "toShard": shard, **MAJORITY}
        try:
            for attempt in range(MOVE_ATTEMPTS):
                try:
                    await self._members.config_command(move, deadline=DDL_DEADLINE)
                    break
                except CommandFailed as error:
                    if error.code != INTERRUPTED or attempt == MOVE_ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(0.2)  # the new config primary's balancer is starting; it tells nobody when
        finally:
            self._catalog.forget(namespace)
        return {"ok": 1.0}

    async def _database(self, name: str, *, create: bool) -> Database:
        database = await self._catalog.database(name, create=create)
        if database is None:
            raise RouterError(26, "NamespaceNotFound", f"database {name} does not exist")
        return database

    async def _table(self, namespace: str) -> Table:
        split_namespace(namespace)
        self._catalog.forget(namespace)
        table = await self._catalog.table(namespace)
        if table is None:
            raise RouterError(118, "NamespaceNotSharded", f"{namespace} is not sharded")
        return table

    async def _to_primary(
        self, database: Database, body: Mapping[str, Any], command: Mapping[str, Any]
    ) -> dict[str, Any]:
        """To the database's primary shard with the database's version, again when that is stale."""
        patience = Patience(database.name)
        while True:
            fields = {"databaseVersion": database.version, "writeConcern": write_concern(command)}
            try:
                reply = await self._members.shard_command(
                    database.primary, database.name, {**body, **fields}, deadline=DDL_DEADLINE
                )
                return _plain(reply)
            except CommandFailed as error:
                if error.code not in STALE:
                    raise
            self._catalog.forget_database(database.name)
            await patience.wait()
            database = await self._database(database.name, create=False)

    async def _on_owners(self, command: Mapping[str, Any], *, create: bool) -> dict[str, Any]:
        """To every shard that owns a chunk, or to the database's primary; with versions, again when one is stale."""
        name = next(iter(command))
        namespace = f"{command['$db']}.{command[name]}"
        body = {**_without_context(command), "writeConcern": write_concern(command)}
        patience = Patience(namespace)
        while True:
            database = await self._database(command["$db"], create=create)
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
                return {"raw": {shard: _plain(one) for shard, one in zip(shards, replies, strict=True)}, "ok": 1.0}
            self._catalog.forget(namespace)
            await patience.wait()


def _without_context(command: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in command.items() if name not in _ABOUT_COMMAND}


def _plain(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A shard's reply without what only servers tell each other."""
    return {name: value for name, value in reply.items() if not name.startswith("$") and name != "lastCommittedOpTime"}
