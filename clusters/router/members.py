"""Reaching the members: the config primary, a shard's primary, all of them; each under a deadline of its own.

The shards are learned from config.shards. Knows sets and hosts; the catalog of collections is not here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.router.errors import RouterError
from clusters.router.monitor import Monitor
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from clusters.wire.pool import Pools

CONFIG_SHARD: Final = "config"
"""The config servers under the name mongos gives them where a shard is named."""

FIND_DEADLINE: Final = 15.0
"""Seconds to find a member that can serve; mongos waits as long (kDefaultFindHostTimeout, measured 15.0)."""
COMMAND_DEADLINE: Final = 10.0
RETRIES: Final = 3
"""As many as a mongos allows itself."""
DDL_DEADLINE: Final = 120.0
"""Seconds for a command that moves data or waits for every shard."""

NOT_PRIMARY: Final = frozenset((10107, 13435, 13436, 189, 11602, 11600, 91))
"""The member is no writable primary (any more), or shuts down: ask the monitor for another."""
AGAIN: Final = NOT_PRIMARY | {246}
"""And SnapshotUnavailable, what a config primary just elected answers to a snapshot read."""


def parse_set(text: str) -> tuple[str, list[str]]:
    """`SET/HOST:PORT,HOST:PORT` in its parts. Raises ValueError."""
    name, slash, hosts = text.partition("/")
    listed = [one for one in hosts.split(",") if one]
    if not name or not slash or not listed or not all(":" in one for one in listed):
        raise ValueError(f"expected SET/HOST:PORT[,HOST:PORT], found {text!r}")
    return name, listed


class Members:
    """Config servers and shards. `internal` pools speak as a fellow server, `plain` ones as a client."""

    def __init__(
        self, monitor: Monitor, internal: Pools, plain: Pools, configdb: str, *, snapshot_reads: bool = True
    ) -> None:
        self.monitor = monitor
        self.internal = internal
        self.plain = plain
        self._config_set, hosts = parse_set(configdb)
        self.configdb = configdb
        monitor.watch_set(self._config_set, hosts)
        self._config_concern = {"level": "snapshot" if snapshot_reads else "majority"}
        self._shard_sets: dict[str, str] = {}

    async def shards(self) -> Mapping[str, str]:
        """Shard name -> set name, read from config.shards now."""
        found: dict[str, str] = {}
        for shard in await self.config_find("shards", {}):
            set_name, hosts = parse_set(shard["host"])
            self.monitor.watch_set(set_name, hosts)
            found[shard["_id"]] = set_name
        self._shard_sets = found
        return found

    async def set_of(self, shard: str) -> str:
        """The replica set of a shard, or of the config servers."""
        if shard == CONFIG_SHARD:
            return self._config_set
        if shard not in self._shard_sets:
            await self.shards()
        if shard not in self._shard_sets:
            raise RouterError(70, "ShardNotFound", f"expected a shard of config.shards, found {shard!r}")
        return self._shard_sets[shard]

    async def primary_of(self, shard: str) -> str:
        return await self.monitor.primary(await self.set_of(shard), deadline=FIND_DEADLINE)

    async def all_hosts(self) -> list[tuple[str, str]]:
        """(shard, host) of every known member of every shard and of the config servers."""
        sets = {CONFIG_SHARD: self._config_set, **await self.shards()}
        return [(shard, host) for shard, set_name in sets.items() for host in self.monitor.members(set_name)]

    async def config_command(
        self, document: Mapping[str, Any], *, deadline: float = COMMAND_DEADLINE
    ) -> dict[str, Any]:
        """A command to the config primary, as a fellow server."""
        return await self.shard_command(CONFIG_SHARD, "admin", document, deadline=deadline)

    async def config_find(self, collection: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All documents of a collection of `config`, as one majority-committed snapshot where servers have those."""
        find = {"find": collection, "filter": query, "readConcern": self._config_concern, "batchSize": 100_000}
        give_up = time.monotonic() + COMMAND_DEADLINE
        while True:
            try:
                return await self._config_find(find)
            except (ConnectionLost, DeadlinePassed, CommandFailed) as error:
                again = not isinstance(error, CommandFailed) or error.code in AGAIN
                if not again or time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.1)  # an election, or no majority-committed snapshot yet: nobody tells when

    async def _config_find(self, find: Mapping[str, Any]) -> list[dict[str, Any]]:
        host = await self.primary_of(CONFIG_SHARD)
        known = self.monitor.cluster_time()
        if known is not None:
            find = {**find, "$clusterTime": known}
        try:
            async with self.plain.to(host).connection() as connection:
                reply = await connection.command("config", find, deadline=COMMAND_DEADLINE)
                found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
                while reply["cursor"]["id"]:
                    more = {"getMore": reply["cursor"]["id"], "collection": find["find"]}
                    reply = await connection.command("config", more, deadline=COMMAND_DEADLINE)
                    found += reply["cursor"]["nextBatch"]
                return found
        except (ConnectionLost, DeadlinePassed):
            self.monitor.note_failure(host)
            raise

    async def shard_command(
        self, shard: str, database: str, document: Mapping[str, Any], *, deadline: float = COMMAND_DEADLINE
    ) -> dict[str, Any]:
        """A command to the primary of a shard, as a fellow server: it must carry its own read or write concern.

        Sent again where its member was no primary; where it was lost, only what servers say among themselves, which
        is made to bear it.
        """
        twice = next(iter(document)).startswith("_")
        for last in (*[False] * RETRIES, True):
            host = await self.primary_of(shard)
            try:
                async with self.internal.to(host).connection() as connection:
                    reply = await connection.command(database, document, deadline=deadline)
            except (ConnectionLost, DeadlinePassed, CommandFailed) as error:
                not_primary = isinstance(error, CommandFailed) and error.code in NOT_PRIMARY
                if not_primary or not isinstance(error, CommandFailed):
                    self.monitor.note_failure(host)
                if last or not (not_primary or (twice and isinstance(error, ConnectionLost))):
                    raise
            else:
                self.monitor.note_cluster_time(reply.get("$clusterTime"))
                return reply
        raise AssertionError("the last try returns or raises")

    async def on_all(
        self, hosts: Sequence[tuple[str, str]], database: str, document: Mapping[str, Any], *, deadline: float
    ) -> dict[tuple[str, str], dict[str, Any] | Exception]:
        """The same command, as a client, to many members at once: each one's reply, or what went wrong there."""

        async def ask(host: str) -> dict[str, Any] | Exception:
            try:
                async with asyncio.timeout(deadline), self.plain.to(host).connection() as connection:
                    return await connection.command(database, document, deadline=deadline)
            except (CommandFailed, ConnectionLost, TimeoutError) as error:
                return error

        replies = await asyncio.gather(*(ask(host) for _shard, host in hosts))
        return dict(zip(hosts, replies, strict=True))
