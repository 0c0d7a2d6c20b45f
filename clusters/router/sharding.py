"""Sharding a collection, splitting its chunks, moving them: as a 6.0 mongos asks the servers that coordinate it.

The router finds the chunk that a command means; checks that the servers make themselves are left to them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from bson.int64 import Int64

from clusters.quirks import Quirks
from clusters.router.catalog import MAJORITY, Catalog, Table
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.router.primaries import ABOUT_COMMAND, DatabasePrimaries, split_namespace
from clusters.router.refusals import unknown
from clusters.router.shown import shown
from clusters.router.targeting import chunk_of_query
from clusters.wire.connection import CommandFailed

INTERRUPTED: Final = 194
"""BalancerInterrupted: what a config primary answers to a move shortly after it became primary; the move is retried."""
MOVE_PATIENCE: Final = 20.0
"""Seconds of that: a balancer whose start failed, on shards that were not there yet, tries again after 10 s."""

LARGEST_CHUNK_MB: Final = 64
"""Of servers before 6.0, where `config.settings` says nothing else (manual: Modify Range Size)."""

_OF_SHARDING: Final = frozenset(("unique", "numInitialChunks", "presplitHashedZones", "collation"))


class Sharding:
    def __init__(self, members: Members, catalog: Catalog, server: Quirks) -> None:
        self._members = members
        self._catalog = catalog
        self._primaries = DatabasePrimaries(members, catalog)
        self._server = server

    async def shard_collection(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The database is made where there is none, as since 6.0."""
        name, collection = split_namespace(command["shardCollection"])
        key = command["key"]
        refused = set(command) - ABOUT_COMMAND - _OF_SHARDING - {"shardCollection", "key", "comment"}
        if refused:
            raise RouterError(
                115, "CommandNotSupported", f"the stand-in router does not do shardCollection with {sorted(refused)}"
            )
        database = await self._primaries.database(name, create=True)
        fields = {one: command[one] for one in command if one in _OF_SHARDING}
        try:
            if self._server.ddl_on_shards:
                await self._primaries.run(
                    database, {"_shardsvrCreateCollection": collection, "shardKey": key, **fields}, command
                )
            else:
                await self._members.config_command(
                    {"_configsvrShardCollection": command["shardCollection"], "key": key, **fields, **MAJORITY},
                    deadline=DDL_DEADLINE,
                )
        finally:
            self._catalog.forget(command["shardCollection"])
        return {"collectionsharded": command["shardCollection"], "ok": 1.0}

    async def split(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """At `middle`, or at the median of the chunk that `find` lies in or `bounds` names."""
        namespace = command["split"]
        table = await self._table(namespace)
        given = [one for one in ("find", "bounds", "middle") if command.get(one)]
        if len(given) != 1:
            raise RouterError(9, "FailedToParse", f"split takes one of find, bounds and middle, found {given}")
        middle = command.get("middle")
        if middle is None:
            chunk = _chunk(table, command)
            middle = await self._median(table, chunk)
        elif isinstance(middle, Mapping) and list(middle) == list(table.key):
            chunk = table.chunk_of(tuple(middle.values()))
        else:
            raise RouterError(
                61, "ShardKeyNotFound", f"expected a whole shard key {dict(table.key)} in `middle`, found {middle!r}"
            )
        lower, upper = table.bounds_of(chunk)
        if middle == lower:
            raise RouterError(
                72,
                "InvalidOptions",
                f"new split key {shown(middle)} is a boundary key of existing chunk [{shown(lower)},{shown(upper)})",
            )
        shard = table.owners[chunk]
        at = {"from": shard, "min": lower, "max": upper, "keyPattern": table.key, "splitKeys": [middle]}
        versions = {"epoch": table.epoch, "timestamp": table.timestamp}
        try:
            await self._members.shard_command(
                shard, "admin", {"splitChunk": namespace, **at, **versions}, deadline=DDL_DEADLINE
            )
        finally:
            self._catalog.forget(namespace)
        return {"ok": 1.0}

    async def move_range(self, command: Mapping[str, Any]) -> dict[str, Any]:
        bounds = {one: command[one] for one in ("min", "max") if command.get(one) is not None}
        if not self._server.move_range:
            raise unknown("moveRange")
        await self._table(command["moveRange"])
        await self._move(command["moveRange"], command.get("toShard"), bounds, command)
        return {"ok": 1.0}

    async def move_chunk(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The chunk that `find` lies in, or that `bounds` names."""
        namespace = command["moveChunk"]
        table = await self._table(namespace)
        if bool(command.get("find")) == bool(command.get("bounds")):
            raise RouterError(
                9, "FailedToParse", "moveChunk takes either `find`, a query with the shard key, or `bounds`"
            )
        lower, upper = table.bounds_of(_chunk(table, command))
        begun = time.monotonic()
        await self._move(namespace, command.get("to"), {"min": lower, "max": upper}, command)
        return {"millis": Int64((time.monotonic() - begun) * 1000), "ok": 1.0}

    async def _median(self, table: Table, chunk: int) -> Mapping[str, Any]:
        lower, upper = table.bounds_of(chunk)
        ask = {"splitVector": table.namespace, "keyPattern": table.key, "min": lower, "max": upper, "force": True}
        reply = await self._members.shard_command(
            table.owners[chunk], table.namespace.partition(".")[0], ask, deadline=DDL_DEADLINE
        )
        if not reply["splitKeys"]:
            raise RouterError(301, "CannotSplit", "unable to find a median in the chunk, perhaps because it is empty")
        median: Mapping[str, Any] = reply["splitKeys"][0]
        return median

    async def _move(self, namespace: str, shard: Any, bounds: Mapping[str, Any], command: Mapping[str, Any]) -> None:
        if not isinstance(shard, str) or shard not in await self._members.shards():
            raise RouterError(70, "ShardNotFound", f"expected a shard of config.shards to move to, found {shard!r}")
        if self._server.move_range:
            move = {"_configsvrMoveRange": namespace, **bounds, "toShard": shard, **_how(command), **MAJORITY}
        else:
            move = await self._move_of_chunk(namespace, shard, bounds, command)
        give_up = time.monotonic() + MOVE_PATIENCE
        try:
            while True:
                try:
                    await self._members.config_command(move, deadline=DDL_DEADLINE)
                    break
                except CommandFailed as error:
                    if error.code != INTERRUPTED or time.monotonic() > give_up:
                        raise
                    await asyncio.sleep(0.2)  # the new config primary's balancer is starting; it tells nobody when
        finally:
            self._catalog.forget(namespace)

    async def _move_of_chunk(
        self, namespace: str, shard: str, bounds: Mapping[str, Any], command: Mapping[str, Any]
    ) -> dict[str, Any]:
        """As a mongos before 6.0 asks for it: with the chunk as config.chunks has it."""
        (found,) = (one for one in await self._catalog.chunks(namespace) if one["min"] == bounds["min"])
        # An `_id` would be encoded before the command's name, and is not needed.
        chunk = {name: value for name, value in found.items() if name != "_id"}
        table = await self._catalog.table(namespace)
        return {
            "_configsvrMoveChunk": 1,
            **chunk,
            "ns": namespace,
            "lastmodEpoch": table.epoch if table is not None else chunk.get("lastmodEpoch"),
            "toShard": shard,
            "maxChunkSizeBytes": Int64(await self._largest_chunk()),
            "secondaryThrottle": {"secondaryThrottle": bool(_how(command).get("secondaryThrottle"))},
            "waitForDelete": bool(_how(command).get("waitForDelete")),
            "forceJumbo": bool(_how(command).get("forceJumbo")),
            **MAJORITY,
        }

    async def _largest_chunk(self) -> int:
        """Bytes past which a donor refuses a chunk (153 ChunkTooBig)."""
        set_here = await self._members.config_find("settings", {"_id": "chunksize"})
        return int((set_here[0]["value"] if set_here else LARGEST_CHUNK_MB) * (1 << 20))

    async def _table(self, namespace: str) -> Table:
        split_namespace(namespace)
        self._catalog.forget(namespace)
        table = await self._catalog.table(namespace)
        if table is None:
            raise RouterError(118, "NamespaceNotSharded", f"{namespace} is not sharded")
        return table


def _chunk(table: Table, command: Mapping[str, Any]) -> int:
    """The chunk a command means by `find` or `bounds`."""
    if command.get("find"):
        chunk = chunk_of_query(table, command["find"])
        if chunk is None:
            raise RouterError(61, "ShardKeyNotFound", f"no shard key found in chunk query {shown(command['find'])}")
        return chunk
    lower, upper = command["bounds"]
    if list(lower) == list(table.key):
        chunk = table.chunk_of(tuple(lower.values()))
        if table.bounds_of(chunk) == (lower, upper):
            return chunk
    raise RouterError(72, "InvalidOptions", f"no chunk found with the bounds [{shown(lower)},{shown(upper)})")


def _how(command: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a move; moveChunk's have an older spelling too."""
    how: dict[str, Any] = {}
    for name in ("waitForDelete", "secondaryThrottle"):
        for spelled in (name, f"_{name}"):
            if spelled in command:
                how[name] = bool(command[spelled])
    if command.get("forceJumbo"):
        how["forceJumbo"] = 1  # "manually", in the config server's words
    return how
