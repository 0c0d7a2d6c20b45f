"""Which shard a numbered write or a findAndModify goes to: pure functions from a routing table and its own fields.

The errors are those of a 6.0 mongos, word for word: a shard server's own in-process router was asked (6.0.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.router import shard_key
from clusters.router.catalog import Table
from clusters.router.errors import RouterError
from clusters.router.query_ranges import collated, shards_of_query
from clusters.router.shard_key import ArrayInKey, Values, equalities
from clusters.router.shown import shown

_NOT_EXACT: Final = "could not extract exact shard key"

COLLATION_DEFAULTS: Final = {
    "caseLevel": False,
    "caseFirst": "off",
    "strength": 3,
    "numericOrdering": False,
    "alternate": "non-ignorable",
    "maxVariable": "punct",
    "normalization": False,
    "backwards": False,
}
"""What a collation says where it says nothing (manual: Collation); the catalog has each of them spelled out."""


class NotTargeted(RouterError):
    """The operation names no shard it could go to; nothing was sent."""


def insert_shard(table: Table, document: bytes) -> str:
    """The shard a new document belongs to."""
    try:
        return table.owner(shard_key.placed(table, shard_key.of_bytes(table, document)))
    except ArrayInKey:
        raise _key_not_found("Shard key cannot contain array values or array descendants.") from None


def update_shards(table: Table, statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The shards one numbered update goes to: one, or several where only `_id` says which document."""
    query, collation = statement["q"], statement.get("collation")
    if statement.get("multi"):
        raise NotTargeted(72, "InvalidOptions", "Cannot use (or request) retryable writes with multi=true")
    values = shard_key.of_query(table, query)
    if statement.get("upsert"):
        return (_one_shard(table, values, collation, "Failed to target upsert by query"),)
    shards = _query_shards(table, query, values, collation)
    if len(shards) == 1:
        return shards
    change = statement["u"]
    if isinstance(change, Mapping) and not next(iter(change), "").startswith("$"):
        identity = {name: value for name, value in equalities(query).items() if name == "_id"}
        try:
            values = shard_key.of_document(table, {**identity, **change})
        except ArrayInKey:
            values = None
        return (_one_shard(table, values, collation, "Failed to target update by replacement document"),)
    if _exact_id(table, query, collation):
        return shards
    raise NotTargeted(
        72,
        "InvalidOptions",
        "A {multi:false} update on a sharded collection must contain an exact match on _id (and have the collection"
        " default collation) or target a single shard (and have the simple collation), but this update targeted"
        f" {len(shards)} shards. Update request: {shown(_told(statement, multi=False, upsert=False))},"
        f" shard key pattern: {shown(table.key)}",
    )


def delete_shards(table: Table, statement: Mapping[str, Any]) -> tuple[str, ...]:
    """The shards one numbered delete goes to. A range is not enough, even where it lies on one shard."""
    query, collation = statement["q"], statement.get("collation")
    if statement["limit"] == 0:
        raise NotTargeted(72, "InvalidOptions", "Cannot use (or request) retryable writes with limit=0")
    values = shard_key.of_query(table, query)
    if values is not None and _collated_field(table, values, collation) is None:
        return (table.owner(shard_key.placed(table, values)),)
    if _exact_id(table, query, collation):
        return _query_shards(table, query, values, collation)
    raise _key_not_found(
        "A single delete on a sharded collection must contain an exact match on _id (and have the collection default"
        " collation) or contain the shard key (and have the simple collation). Delete request:"
        f" {shown(_told(statement))}, shard key pattern: {shown(table.key)}"
    )


def find_and_modify_shard(table: Table, command: Mapping[str, Any]) -> str:
    """A 6.0 mongos wants the whole shard key in the query, even where `_id` is there or a range lies on one shard."""
    values = shard_key.of_query(table, command.get("query") or {})
    if values is None:
        raise _key_not_found("Query for sharded findAndModify must contain the shard key")
    return _one_shard(table, values, command.get("collation"), "")


def chunk_of_query(table: Table, query: Mapping[str, Any]) -> int | None:
    """The chunk that holds the shard key a query fixes, None where it fixes none."""
    values = shard_key.of_query(table, query)
    return None if values is None else table.chunk_of(shard_key.placed(table, values))


def _query_shards(
    table: Table, query: Mapping[str, Any], values: Values | None, collation: Mapping[str, Any] | None
) -> tuple[str, ...]:
    if values is not None and _collated_field(table, values, collation) is None:
        return (table.owner(shard_key.placed(table, values)),)
    return shards_of_query(table, query, simple=_simple(table, collation))


def _one_shard(table: Table, values: Values | None, collation: Mapping[str, Any] | None, failed: str) -> str:
    if values is None:
        raise _key_not_found(f"{failed} :: {_NOT_EXACT}")
    field = _collated_field(table, values, collation)
    if field is not None:
        why = f"Cannot target single shard due to collation of key {field} for namespace {table.namespace}"
        raise _key_not_found(f"{failed} :: caused by :: {why}" if failed else why)
    return table.owner(shard_key.placed(table, values))


def _collated_field(table: Table, values: Values, collation: Mapping[str, Any] | None) -> str | None:
    """The first key field whose value names no single shard, because a collation holds other values equal to it.

    Of a hashed field a mongos sees the hash alone, and takes any for a string's.
    """
    if _simple(table, collation):
        return None
    for name, value in zip(table.key, values, strict=True):
        if name == table.hashed_field or collated(value):
            return name
    return None


def _simple(table: Table, collation: Mapping[str, Any] | None) -> bool:
    chosen = collation if collation else table.collation
    return not chosen or chosen.get("locale") == "simple"


def _exact_id(table: Table, query: Mapping[str, Any], collation: Mapping[str, Any] | None) -> bool:
    """Whether the query names one `_id`; under a collation that the `_id` index has not, no string does."""
    found = equalities(query)
    if "_id" not in found:
        return False
    return not collated(found["_id"]) or not collation or _same_collation(collation, table.collation)


def _same_collation(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    whole = other or {"locale": "simple"}
    if one.get("locale") == "simple" or whole.get("locale") == "simple":
        return one.get("locale") == whole.get("locale")
    names = ("locale", *COLLATION_DEFAULTS)
    return [{**COLLATION_DEFAULTS, **one}.get(name) for name in names] == [
        {**COLLATION_DEFAULTS, **whole}.get(name) for name in names
    ]


def _told(statement: Mapping[str, Any], **defaults: bool) -> dict[str, Any]:
    """A statement as a mongos tells it, which says what was left out, in this order."""
    whole = {**defaults, **statement}
    order = ("q", "u", "c", "arrayFilters", "limit", "hint", "multi", "upsert", "collation")
    return {name: whole[name] for name in order if name in whole}


def _key_not_found(why: str) -> NotTargeted:
    return NotTargeted(61, "ShardKeyNotFound", why)
