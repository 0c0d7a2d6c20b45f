"""Which chunks a query could match: from its conditions on shard key fields, as ranges of the key. Pure.

Rather too many than too few. Ends count as included, as in a 6.0 mongos: `{$lt: 0}` asks the chunk from 0 on too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson.max_key import MaxKey
from bson.min_key import MinKey

from clusters.router.catalog import Table
from clusters.router.hashing import hashed
from clusters.router.order import Key, value_key
from clusters.router.shard_key import fixed, is_operators, is_point, predicates

_Interval = tuple[Key, Key]
_LOWEST, _HIGHEST = value_key(MinKey()), value_key(MaxKey())
_ALL: Final[Sequence[_Interval]] = ((_LOWEST, _HIGHEST),)
_NUMBERS: Final = (value_key(float("-inf")), value_key(float("inf")))
_MOST_RANGES: Final = 1000
"""More than this many, and a query is taken to match all."""


def shards_of_query(table: Table, query: Mapping[str, Any], *, simple: bool) -> tuple[str, ...]:
    """The shards that own a chunk the query could match, at least one. `simple`: strings compare byte by byte."""
    chunks = _chunks(table, list(predicates(query)), simple)
    if chunks is None:
        return table.shards
    # A query that matches nothing asks one shard all the same, the first: so does a mongos.
    return tuple(dict.fromkeys(table.owners[one] for one in sorted(chunks))) or table.shards[:1]


def collated(value: Any) -> bool:
    """Whether a collation could make other values equal to it."""
    return isinstance(value, str | Mapping | list)


def _chunks(table: Table, conditions: Sequence[tuple[str, Any]], simple: bool) -> set[int] | None:
    """Chunk indices; None for all. Only what says something of the key's first field narrows them."""
    plain = [one for one in conditions if not one[0].startswith("$")]
    found = _of_plain(table, plain, simple) if next(iter(table.key)) in dict(plain) else None
    either = next((value for name, value in conditions if name == "$or" and isinstance(value, list)), None)
    if either is None or not all(isinstance(one, Mapping) for one in either):
        return found
    of_branches: set[int] = set()
    for branch in either:
        chunks = _chunks(table, [*plain, *predicates(branch)], simple)
        if chunks is None:
            return found
        of_branches |= chunks
    return of_branches


def _of_plain(table: Table, conditions: Sequence[tuple[str, Any]], simple: bool) -> set[int] | None:
    """Chunks of what holds together, which says something of the key's first field."""
    ranges: list[tuple[tuple[Key, ...], tuple[Key, ...]]] = [((), ())]
    points = True
    for name in table.key:
        intervals = _ALL
        for field, value in conditions:
            if field == name:
                intervals = _both(intervals, _intervals(value, simple, hash_them=name == table.hashed_field))
        if not intervals:
            return set()
        if not points:
            # Behind a field that spans a range, only the ends of that range see what the later fields say.
            intervals = [(intervals[0][0], max(high for _low, high in intervals))]
        ranges = [((*low, one[0]), (*high, one[1])) for low, high in ranges for one in intervals]
        points = points and all(low == high for low, high in intervals)
        if len(ranges) > _MOST_RANGES:
            return None
    found: set[int] = set()
    for low, high in ranges:
        found.update(range(max(0, bisect_right(table.lower, low) - 1), bisect_right(table.lower, high)))
    return found


def _intervals(value: Any, simple: bool, *, hash_them: bool) -> Sequence[_Interval]:
    intervals = _ALL
    listed = _listed(value)
    if listed is not None and (simple or not any(map(collated, listed))):
        keys = sorted(value_key(hashed(one) if hash_them else one) for one in listed)
        intervals = [(one, one) for one in keys]
    if is_operators(value) and not hash_them:
        for operator, operand in value.items():
            intervals = _both(intervals, _compared(operator, operand, simple))
    return intervals


def _listed(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        # No array lies in a shard key, so this matches nothing; it is looked for where its first member would lie.
        return [*value[:1], value]
    if is_operators(value) and "$exists" in value and not value["$exists"]:
        return [None]
    return fixed(value)


def _compared(operator: str, operand: Any, simple: bool) -> Sequence[_Interval]:
    if operator not in ("$gt", "$gte", "$lt", "$lte") or not is_point(operand):
        return _ALL
    if isinstance(operand, MinKey | MaxKey) or (collated(operand) and not simple):
        return _ALL
    key = value_key(operand)
    low, high = _NUMBERS if key[0] == _NUMBERS[0][0] else ((key[0],), (key[0] + 0.5,))
    return [(key, max(key, high)) if operator in ("$gt", "$gte") else (min(key, low), key)]


def _both(one: Sequence[_Interval], other: Sequence[_Interval]) -> Sequence[_Interval]:
    crossed = [(max(a[0], b[0]), min(a[1], b[1])) for a in one for b in other]
    return [(low, high) for low, high in crossed if low <= high]
