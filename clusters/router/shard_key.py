"""The shard key value of a document, and the one a query fixes: from fields to a place among the chunks. Pure.

What a query that fixes none could match is in `query_ranges`; which errors come of it, in `targeting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bson.regex import Regex

from clusters.router.catalog import Table
from clusters.router.hashing import hashed
from clusters.router.order import value_key
from clusters.router.rewrite import elements
from clusters.wire.message import decode

Values = tuple[Any, ...]
"""One value for each field of the key, in its order, as fields have them: not hashed yet."""

MISSING: Final = object()


class ArrayInKey(Exception):
    """A shard key field, or one on the way to it, is an array."""


def placed(table: Table, values: Values) -> Values:
    """The values as chunk bounds have them: the hashed field's as its hash."""
    if not table.hashed_field:
        return values
    return tuple(
        hashed(value) if name == table.hashed_field else value for name, value in zip(table.key, values, strict=True)
    )


def of_bytes(table: Table, document: bytes) -> Values:
    """Of a whole document. Only the top-level fields that the key touches are decoded. Raises ArrayInKey."""
    wanted = {name.partition(".")[0] for name in table.key}
    body = b"".join(document[one.start : one.end] for one in elements(document) if one.name in wanted)
    return of_document(table, decode((len(body) + 5).to_bytes(4, "little") + body + b"\x00"))


def of_document(table: Table, document: Mapping[str, Any]) -> Values:
    """Of a whole document; a missing field counts as null (since 4.4). Raises ArrayInKey."""
    return tuple(_field(document, name.split(".")) for name in table.key)


def _field(document: Any, path: Sequence[str]) -> Any:
    value = document
    for part in path:
        if isinstance(value, list):
            break
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        raise ArrayInKey
    return value


def of_query(table: Table, query: Mapping[str, Any]) -> Values | None:
    """What the query fixes by equality, None unless it fixes the whole key."""
    equal = equalities(query)
    values = tuple(_equal(equal, name) for name in table.key)
    return None if any(one is MISSING for one in values) else values


def _equal(equal: Mapping[str, Any], name: str) -> Any:
    """By a field's own equality, or that of a document around it; not where several name it."""
    around = [one for one in equal if one == name or name.startswith(one + ".")]
    if len(around) != 1:
        return MISSING
    value = equal[around[0]]
    for part in name[len(around[0]) + 1 :].split(".") if around[0] != name else ():
        value = value.get(part, MISSING) if isinstance(value, Mapping) else MISSING
    return value if is_point(value) else MISSING


def equalities(query: Mapping[str, Any]) -> dict[str, Any]:
    """Field -> value for each field the query fixes by equality; not those it fixes twice, even to the same value."""
    found: dict[str, Any] = {}
    for name, value in predicates(query):
        points = None if name.startswith("$") else fixed(value)
        if points is not None and len({value_key(one) for one in points}) == 1:
            found[name] = MISSING if name in found else points[0]
    return {name: value for name, value in found.items() if value is not MISSING}


def predicates(query: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The conditions that hold together: `$and`, and `$or` of a single branch, taken apart."""
    for name, value in query.items():
        inner = isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
        if inner and (name == "$and" or (name == "$or" and len(value) == 1)):
            for part in value:
                yield from predicates(part)
        else:
            yield name, value


def fixed(value: Any) -> list[Any] | None:
    """The values a condition admits, where it lists them; None where it does not."""
    if not is_operators(value):
        return [value] if is_point(value) else None
    for operator in ("$eq", "$in", "$all"):
        if operator not in value:
            continue
        listed = [value[operator]] if operator == "$eq" else value[operator]
        if isinstance(listed, list) and all(map(is_point, listed)) and (operator != "$all" or len(listed) == 1):
            return listed
    return None


def is_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and next(iter(value), "").startswith("$")


def is_point(value: Any) -> bool:
    """Whether equality with it is equality of shard keys: an array or a regular expression matches otherwise."""
    return value is not MISSING and not isinstance(value, list | Regex) and not is_operators(value)
