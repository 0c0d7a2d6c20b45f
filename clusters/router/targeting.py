"""Which shard an operation goes to: pure functions from a routing table and an operation's own fields.

Follows the manual's pages "Sharded Cluster Query Routing" and, for errors, what a 6.0 mongos answers. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from clusters.router.catalog import Table
from clusters.router.errors import RouterError
from clusters.router.rewrite import elements
from clusters.wire.message import decode

Values = tuple[Any, ...]

MISSING: Final = object()
_WANTED: Final = (
    "on a sharded collection must contain an exact match on _id or the shard key (the stand-in router does not target"
    " ranges):"
)


class NotTargeted(RouterError):
    """The operation names no shard it could go to; nothing was sent."""


def insert_shard(table: Table, document: bytes) -> str:
    """The shard a new document belongs to. Only the shard key's fields are decoded."""
    _by_ranges(table)
    return table.owner(_key_of_document(table, _fields(document, table)))


def update_shards(table: Table, statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The shards one numbered update goes to: one, or every owner where only `_id` says which document."""
    query = statement["q"]
    if statement.get("multi"):
        raise NotTargeted(72, "InvalidOptions", "a numbered update with multi: true is not possible")
    values = key_in_query(table, query, statement.get("collation"))
    if values is not None:
        return (table.owner(values),)
    if statement.get("upsert"):
        raise NotTargeted(
            61, "ShardKeyNotFound", f"Failed to target upsert by query: it must name {_key(table)} by equality"
        )
    change = statement["u"]
    if isinstance(change, Mapping) and not next(iter(change), "").startswith("$"):
        identity = _equalities(query).get("_id", MISSING)
        replacement = dict(change) if identity is MISSING else {"_id": identity, **change}
        return (table.owner(_key_of_document(table, replacement)),)
    return _by_id(table, query, NotTargeted(72, "InvalidOptions", f"A {{multi:false}} update {_WANTED} {_key(table)}"))


def delete_shards(table: Table, statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The shards one numbered delete goes to."""
    if statement.get("limit") != 1:
        raise NotTargeted(72, "InvalidOptions", "a numbered delete takes limit: 1")
    values = key_in_query(table, statement["q"], statement.get("collation"))
    if values is not None:
        return (table.owner(values),)
    return _by_id(
        table, statement["q"], NotTargeted(61, "ShardKeyNotFound", f"A single delete {_WANTED} {_key(table)}")
    )


def find_and_modify_shard(table: Table, command: Mapping[str, Any]) -> str:
    """A 6.0 mongos wants the shard key in the query, even where `_id` is there."""
    values = key_in_query(table, command.get("query") or {}, command.get("collation"))
    if values is not None:
        return table.owner(values)
    raise NotTargeted(
        61, "ShardKeyNotFound", f"Query for sharded findAndModify must contain the shard key {_key(table)} by equality"
    )


def key_in_query(table: Table, query: Mapping[str, Any], collation: Mapping[str, Any] | None) -> Values | None:
    """The shard key value that a query fixes by equality, None if it does not."""
    _by_ranges(table)
    equal = _equalities(query)
    values = tuple(equal.get(name, MISSING) for name in table.key)
    if any(one is MISSING for one in values):
        return None
    if not _simple(table, collation) and any(isinstance(one, (str, Mapping)) for one in values):
        # Under a collation several strings are equal, and they may lie on several shards.
        return None
    return values


def _by_ranges(table: Table) -> None:
    if any(direction != 1 for direction in table.key.values()):
        raise NotTargeted(
            115,
            "CommandNotSupported",
            f"the stand-in router finds the shard of a range key only, {table.namespace} has {_key(table)}",
        )


def _by_id(table: Table, query: Mapping[str, Any], otherwise: NotTargeted) -> tuple[str, ...]:
    identity = _equalities(query).get("_id", MISSING)
    if identity is not MISSING or len(table.shards) == 1:
        return table.shards
    raise otherwise


def _equalities(query: Mapping[str, Any]) -> dict[str, Any]:
    """Field -> value for each field the query fixes by equality, `$and` looked into."""
    found: dict[str, Any] = {}
    for name, value in query.items():
        if name == "$and" and isinstance(value, list):
            for part in value:
                if isinstance(part, Mapping):
                    for inner, fixed in _equalities(part).items():
                        found.setdefault(inner, fixed)
        elif not name.startswith("$"):
            if isinstance(value, Mapping) and next(iter(value), "").startswith("$"):
                value = value.get("$eq", MISSING)
            if _is_point(value):
                found.setdefault(name, value)
    return found


_POINTS: Final = (
    bool, int, float, str, bytes, datetime, DatetimeMS, Decimal128, Code, MaxKey, MinKey, ObjectId, Timestamp,
)  # fmt: skip


def _is_point(value: Any) -> bool:
    """Whether equality with it is equality of shard keys: an array or a regular expression matches otherwise."""
    if value is None or isinstance(value, _POINTS):
        return True
    return isinstance(value, Mapping) and not any(isinstance(one, list) for one in value.values())


def _simple(table: Table, collation: Mapping[str, Any] | None) -> bool:
    chosen = collation if collation else table.collation
    return not chosen or chosen.get("locale") == "simple"


def _fields(document: bytes, table: Table) -> dict[str, Any]:
    """The document's top-level fields that the shard key touches, decoded."""
    wanted = {name.partition(".")[0] for name in table.key}
    parts = [document[one.start : one.end] for one in elements(document) if one.name in wanted]
    body = b"".join(parts)
    return decode((len(body) + 5).to_bytes(4, "little") + body + b"\x00")


def _key_of_document(table: Table, document: Mapping[str, Any]) -> Values:
    """The shard key value of a whole document; a missing field counts as null (since 4.4)."""
    return tuple(_field(document, name.split("."), name) for name in table.key)


def _field(document: Any, path: Sequence[str], name: str) -> Any:
    value = document
    for part in path:
        if isinstance(value, list):
            break
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        raise NotTargeted(61, "ShardKeyNotFound", f"Shard key cannot contain array values: field {name!r} is an array")
    return value


def _key(table: Table) -> str:
    return "{" + ", ".join(f"{name}: {direction}" for name, direction in table.key.items()) + "}"
