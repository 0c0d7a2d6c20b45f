"""A decoded BSON value as a server writes it into the text of an error. Pure; for people, not for parsing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp


def shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case Mapping():
            return "{ " + ", ".join(f"{name}: {shown(one)}" for name, one in value.items()) + " }" if value else "{}"
        case list():
            return "[ " + ", ".join(map(shown, value)) + " ]" if value else "[]"
        case ObjectId():
            return f"ObjectId('{value}')"
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return f"new Date({round(aware.timestamp() * 1000)})"
        case DatetimeMS():
            return f"new Date({int(value)})"
        case Timestamp():
            return f"Timestamp({value.time}, {value.inc})"
        case Decimal128():
            return f"{value}"
        case bytes():
            return f"BinData({value.subtype if isinstance(value, Binary) else 0}, {value.hex().upper()})"
        case Regex():
            return f"/{value.pattern}/"
        case MinKey():
            return "MinKey"
        case MaxKey():
            return "MaxKey"
    return f"{value}"
