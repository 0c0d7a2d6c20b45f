"""One command to every shard that owns part of a collection, with the router's versions, again when they are stale.

What the replies mean is for those who ask; which shards a query reaches is `targeting`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from clusters.router.catalog import STALE, Catalog, Patience, Route
from clusters.router.errors import RouterError
from clusters.router.members import CONFIG_SHARD, DDL_DEADLINE, FIND_DEADLINE, Members
from clusters.router.primaries import plain
from clusters.wire.connection import CommandFailed, ConnectionLost

OF_A_VIEW: Final = frozenset((166, 169))
"""CommandNotSupportedOnView, CommandOnShardedViewNotSupportedOnMongod: what a shard leaves to the router."""


def failure(replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first of the shards' replies that is an error, if one is."""
    return next((dict(one) for one in replies.values() if one["ok"] != 1), None)


class Owners:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog

    async def route(self, database: str, collection: str, *, create: bool = False) -> Route:
        """Where the collection lies. RouterError 26 where there is no such database and `create` is not asked for."""
        found = await self._catalog.route(database, collection, create=create)
        if found is None:
            raise RouterError(26, "NamespaceNotFound", f"database {database} not found")
        return found

    async def ask(
        self,
        database: str,
        collection: str,
        body: Mapping[str, Any],
        *,
        create: bool = False,
        preference: Mapping[str, Any] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Shard -> its reply to `body`, failed or not; a stale one is asked again, all of them together.

        With a read preference it is a read: by the members that it allows, for as long as they take.
        """
        namespace = f"{database}.{collection}"
        patience = Patience(namespace)
        while True:
            route = await self.route(database, collection, create=create)
            shards = (route.database.primary,) if route.table is None else route.table.shards
            replies = await asyncio.gather(
                *(self.one(shard, database, {**body, **route.versions(shard)}, preference) for shard in shards)
            )
            if not any(one["ok"] != 1 and one.get("code") in STALE for one in replies):
                return dict(zip(shards, replies, strict=True))
            self._catalog.forget(namespace)
            await patience.wait()

    async def connection_strings(self) -> dict[str, str]:
        """Shard -> `set/host,host`, the name under which a mongos shows raw replies."""
        monitor = self._members.monitor
        shards = {CONFIG_SHARD: await self._members.set_of(CONFIG_SHARD), **await self._members.shards()}
        return {shard: f"{one}/{','.join(monitor.members(one))}" for shard, one in shards.items()}

    async def raw(self, replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The replies as one, as a mongos puts them together: the first error is the command's."""
        named = await self.connection_strings()
        error = failure(replies)
        wrong = [one["writeConcernError"] for one in replies.values() if "writeConcernError" in one]
        return {
            "raw": {named.get(shard, shard): one for shard, one in replies.items()},
            **({name: error.get(name) for name in ("code", "codeName", "errmsg")} if error else {}),
            **({"writeConcernError": wrong[0]} if wrong else {}),
            "ok": 0.0 if error else 1.0,
        }

    async def one(
        self, shard: str, database: str, body: Mapping[str, Any], preference: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The reply of the shard's primary, failed or not, without what only servers tell each other."""
        try:
            reply: Mapping[str, Any]
            if preference is None:
                reply = await self._members.shard_command(shard, database, body, deadline=DDL_DEADLINE)
            else:
                reply = await self._read(shard, database, body, preference)
        except CommandFailed as error:
            reply = error.reply
        return {name: value for name, value in plain(reply).items() if name != "operationTime"}

    async def _read(
        self, shard: str, database: str, body: Mapping[str, Any], preference: Mapping[str, Any]
    ) -> dict[str, Any]:
        monitor = self._members.monitor
        host = await monitor.select(await self._members.set_of(shard), preference, deadline=FIND_DEADLINE)
        try:
            async with self._members.internal.to(host).connection() as connection:
                reply = await connection.command(database, {**body, "$readPreference": preference})
        except ConnectionLost:
            monitor.note_failure(host)
            raise
        monitor.note_cluster_time(reply.get("$clusterTime"))
        return reply
