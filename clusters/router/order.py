"""The order of BSON values as a sort key: what the server compares shard key values by (simple collation).

Source: the manual's page "Comparison/Sort Order". Pure; knows no catalog.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from clusters.router.errors import RouterError

Key = tuple[Any, ...]
"""Compares with `<` against every other key made here."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def value_key(value: Any) -> Key:
    """The sort key of one decoded value. Raises RouterError for a type that has no place in a shard key."""
    match value:
        case MinKey():
            return (0,)
        case None:
            return (5,)
        case bool():  # before int: a bool is an int in Python, and another type in BSON
            return (40, value)
        case int():
            return (10, 1, value)
        case float():
            return (10, 1, value) if value == value else (10, 0)
        case Decimal128():
            number: Decimal = value.to_decimal()
            return (10, 0) if number.is_nan() else (10, 1, number)
        case Code():  # before str, whose subclass it is
            if value.scope is not None:
                return (65, str(value).encode(), _fields(value.scope))
            return (60, str(value).encode())
        case str():
            return (15, value.encode())
        case DBRef():
            return (20, _fields(value.as_doc()))
        case dict():
            return (20, _fields(value))
        case list() | tuple():
            return (25, tuple(value_key(one) for one in value))
        case bytes():
            subtype = value.subtype if isinstance(value, Binary) else 0
            return (30, len(value), subtype, bytes(value))
        case ObjectId():
            return (35, value.binary)
        case datetime.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return (45, (aware - _EPOCH) // datetime.timedelta(milliseconds=1))
        case DatetimeMS():
            return (45, int(value))
        case Timestamp():
            return (47, value.time, value.inc)
        case Regex():
            return (50, str(value.pattern), value.flags)
        case MaxKey():
            return (127,)
    raise RouterError(2, "BadValue", f"the stand-in router cannot order a shard key value of type {type(value)}")


def _fields(document: Any) -> tuple[Key, ...]:
    """Field by field: type first, then name, then value, as the server's document comparison has it."""
    keys = []
    for name, value in document.items():
        rank, *rest = value_key(value)
        keys.append((rank, name.encode(), *rest))
    return tuple(keys)


def document_key(values: tuple[Any, ...]) -> Key:
    """The sort key of a whole shard key value, simple or compound."""
    return tuple(value_key(one) for one in values)
