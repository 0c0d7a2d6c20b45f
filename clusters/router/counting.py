"""count and distinct: of whole collections, whatever shards hold them, and of views.

count is an aggregate, exact also while chunks move; what an aggregate cannot match is counted by the shards, as a
mongos counts everything. distinct is asked of the shards and united here. Knows no chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.router.catalog import Catalog
from clusters.router.errors import RouterError
from clusters.router.members import Members
from clusters.router.order import value_key
from clusters.router.owners import OF_A_VIEW, Owners, failure
from clusters.router.rewrite import keys_anywhere
from clusters.router.router_host import RouterHost
from clusters.wire.message import encode_document

_COMMON: Final = frozenset(("query", "collation", "comment", "maxTimeMS", "readConcern", "lsid"))
_READ_FIELDS: Final = (
    "hint",
    "collation",
    "comment",
    "maxTimeMS",
    "readConcern",
    "lsid",
    "$readPreference",
    "$clusterTime",
)
FIELDS: Final = {
    "count": _COMMON | {"count", "limit", "skip", "hint", "fields"},
    "distinct": _COMMON | {"distinct", "key"},
}
_ABOUT: Final = frozenset(("apiVersion", "apiStrict", "apiDeprecationErrors"))
_NOT_IN_AGGREGATES: Final = frozenset(("$where", "$near", "$nearSphere"))


class Counting:
    def __init__(self, members: Members, catalog: Catalog, host: RouterHost) -> None:
        self._owners = Owners(members, catalog)
        self._host = host

    async def count(self, command: Mapping[str, Any]) -> dict[str, Any]:
        query = _checked(command, "count")
        skip = _number(command, "skip", "count.skip")
        limit = abs(_limit(command))
        if skip < 0:
            raise RouterError(51024, "Location51024", f"BSON field 'skip' value must be >= 0, actual value '{skip}'")
        by_shards = not self._host.cluster_commands
        if by_shards or not _NOT_IN_AGGREGATES.isdisjoint(keys_anywhere(encode_document(query))):
            return await self._counted_by_shards(command, skip, limit)
        stages: list[dict[str, Any]] = [{"$match": query}]
        if skip:
            stages.append({"$skip": skip})
        if limit:
            stages.append({"$limit": limit})
        stages.append({"$group": {"_id": None, "n": {"$sum": 1}}})
        found, times = await self._aggregate(command, "count", stages)
        return {"n": found[0]["n"] if found else 0, "ok": 1.0, **times}

    async def distinct(self, command: Mapping[str, Any]) -> dict[str, Any]:
        query = _checked(command, "distinct")
        if not isinstance(command["key"], str):
            raise RouterError(14, "TypeMismatch", f"distinct expects a string in `key`, found {command['key']!r}")
        replies = await self._ask(command, "distinct", {"key": command["key"]})
        failed = failure(replies)
        if failed is not None and failed.get("code") in OF_A_VIEW:
            return await self._distinct_of_view(command, query)
        if failed is not None:
            return failed
        if len(replies) == 1:
            ((_shard, only),) = replies.items()
            return {"values": only["values"], "ok": 1.0}
        route = await self._owners.route(command["$db"], command["distinct"])
        collation = command.get("collation") or (route.table.collation if route.table else None)
        return {"values": await self._united([one["values"] for one in replies.values()], collation), "ok": 1.0}

    async def _counted_by_shards(self, command: Mapping[str, Any], skip: int, limit: int) -> dict[str, Any]:
        asked = {
            **({"limit": limit + skip} if limit else {}),
            **{one: command[one] for one in ("hint",) if one in command},
        }
        replies = await self._ask(command, "count", asked)
        failed = failure(replies)
        if failed is not None:
            return failed
        found = max(0, sum(one["n"] for one in replies.values()) - skip)
        return {"n": min(found, limit) if limit else found, "ok": 1.0}

    async def _ask(self, command: Mapping[str, Any], name: str, fields: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        kept = {one: command[one] for one in _COMMON if command.get(one) is not None}
        body = {name: command[name], **kept, **fields}
        body.setdefault("readConcern", {"level": "local"})
        preference = command.get("$readPreference") or {"mode": "primary"}
        try:
            return await self._owners.ask(command["$db"], command[name], body, preference=preference)
        except RouterError as error:
            if error.code != 26:
                raise
            return {"": {"values": [], "n": 0, "ok": 1.0}}  # no database: nothing is in it

    async def _united(self, values: Sequence[Sequence[Any]], collation: Mapping[str, Any] | None) -> list[Any]:
        """Each value once, in BSON's order, as a mongos gives them."""
        if not collation:
            united = {value_key(one): one for some in values for one in some}
            return [united[key] for key in sorted(united)]
        documents = [{"v": one} for some in values for one in some]
        stages: list[dict[str, Any]] = [{"$group": {"_id": "$v"}}, {"$sort": {"_id": 1}}]
        return [one["_id"] for one in await self._host.compute(documents, stages, collation=collation)]

    async def _distinct_of_view(self, command: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
        """Over the stages of the view, which a shard leaves to the router where its collection is sharded."""
        key: str = command["key"]
        parts = key.split(".")
        if any(one.isdigit() for one in parts):
            raise RouterError(
                115,
                "CommandNotSupported",
                f"the stand-in router does no distinct by place in an array on a view: {key!r}",
            )
        stages: list[dict[str, Any]] = [{"$match": query}]
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            stages.append({"$unwind": {"path": f"${path}", "preserveNullAndEmptyArrays": True}})
            if depth < len(parts):
                # An array within the array is not looked into, as distinct does not.
                stages.append({"$match": {"$expr": {"$eq": [{"$type": f"${path}"}, "object"]}}})
        stages.append({"$group": {"_id": None, "values": {"$addToSet": f"${key}"}}})
        found, times = await self._aggregate(command, "distinct", stages)
        values = sorted(found[0]["values"], key=value_key) if found else []
        return {"values": values, "ok": 1.0, **times}

    async def _aggregate(
        self, command: Mapping[str, Any], name: str, stages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        kept = {one: command[one] for one in _READ_FIELDS if one in command}
        reply = await self._host.run(
            command["$db"], {"aggregate": command[name], "pipeline": stages, "cursor": {}, **kept}
        )
        cluster_time = reply.get("$clusterTime")
        times = {"$clusterTime": cluster_time, "operationTime": cluster_time["clusterTime"]} if cluster_time else {}
        return reply["cursor"]["firstBatch"], times


def _checked(command: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The query. Raises RouterError, with a server's codes, for a command it would not read."""
    collection = command[name]
    if not isinstance(collection, str):
        raise RouterError(73, "InvalidNamespace", f"{name} expects a collection's name, found {collection!r}")
    for one in command:
        if one not in FIELDS[name] and one not in _ABOUT and not one.startswith("$"):
            raise RouterError(40415, "Location40415", f"BSON field '{name}.{one}' is an unknown field.")
    query = command.get("query")
    if query is not None and not isinstance(query, Mapping):
        raise RouterError(14, "TypeMismatch", f"{name} expects an object in `query`, found {query!r}")
    return query or {}


def _number(command: Mapping[str, Any], name: str, field: str) -> int:
    value = command.get(name) or 0
    try:
        return int(str(value).partition(".")[0]) if not isinstance(value, (int, float)) else int(value)
    except ValueError:
        raise RouterError(14, "TypeMismatch", f"BSON field '{field}' expects a number, found {value!r}") from None


def _limit(command: Mapping[str, Any]) -> int:
    try:
        return _number(command, "limit", "count.limit")
    except RouterError:
        raise RouterError(2, "BadValue", "limit value is not a valid number") from None
