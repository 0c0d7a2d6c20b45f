"""Commands that a database's primary shard coordinates: sent there under the database's version, again when stale.

What the commands mean is in `ddl` and `sharding`; this knows where they go, and what of a client's command goes along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router.batch import write_concern
from clusters.router.catalog import STALE, Catalog, Database, Patience
from clusters.router.errors import RouterError
from clusters.router.members import DDL_DEADLINE, Members
from clusters.wire.connection import CommandFailed

ABOUT_COMMAND: Final = frozenset(("lsid", "$clusterTime", "$db", "$readPreference", "writeConcern", "txnNumber"))
"""What a client says of any command, and the router says to shards in its own way."""


class DatabasePrimaries:
    def __init__(self, members: Members, catalog: Catalog) -> None:
        self._members = members
        self._catalog = catalog

    async def database(self, name: str, *, create: bool) -> Database:
        """The database; RouterError 26 where there is none and `create` is not asked for."""
        database = await self._catalog.database(name, create=create)
        if database is None:
            raise RouterError(26, "NamespaceNotFound", f"database {name} does not exist")
        return database

    async def run(self, database: Database, body: Mapping[str, Any], command: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to `body` under the write concern of the client's `command`."""
        patience = Patience(database.name)
        while True:
            fields = {"databaseVersion": database.version, "writeConcern": write_concern(command)}
            try:
                reply = await self._members.shard_command(
                    database.primary, database.name, {**body, **fields}, deadline=DDL_DEADLINE
                )
                return plain(reply)
            except CommandFailed as error:
                if error.code not in STALE:
                    raise
            self._catalog.forget_database(database.name)
            await patience.wait()
            database = await self.database(database.name, create=False)


def split_namespace(namespace: Any) -> tuple[str, str]:
    """`database.collection` in its parts. RouterError 73 where it is none."""
    if not isinstance(namespace, str):
        raise RouterError(2, "BadValue", f"collection name has invalid type {type(namespace).__name__}")
    database, dot, collection = namespace.partition(".")
    if not (database and dot and collection):
        raise RouterError(73, "InvalidNamespace", f"expected database.collection, found {namespace!r}")
    return database, collection


def without_context(command: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in command.items() if name not in ABOUT_COMMAND}


def plain(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A shard's reply without what only servers tell each other."""
    return {name: value for name, value in reply.items() if not name.startswith("$") and name != "lastCommittedOpTime"}
