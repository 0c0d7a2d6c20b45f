"""The hash of a BSON value as hashed indexes and hashed shard keys have it (version 0, seed 0). Pure bytes.

Source: the server's `_hashBSONElement` command, asked about values of every type (6.0.5). Knows no shard keys.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN
from typing import Any, Final

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from clusters.router.rewrite import ARRAY, DOCUMENT, DOUBLE, INT32, INT64, Element, elements, number
from clusters.wire.message import encode_document

DECIMAL: Final = 0x13
CODE_WITH_SCOPE: Final = 0x0F

_TYPE: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")
_SEED: Final = _TYPE.pack(0)
_END: Final = _TYPE.pack(0)
"""What ends a document: type 0, and a name that has no byte, not even its final 0."""

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_RANKS: Final = {
    0xFF: -1,  # MinKey
    0x06: 0,  # undefined
    0x0A: 5,  # null
    DOUBLE: 10,
    INT32: 10,
    INT64: 10,
    DECIMAL: 10,
    0x02: 15,  # string
    0x0E: 15,  # symbol
    DOCUMENT: 20,
    ARRAY: 25,
    0x05: 30,  # binary
    0x07: 35,  # ObjectId
    0x08: 40,  # bool
    0x09: 45,  # date
    0x11: 47,  # timestamp
    0x0B: 50,  # regex
    0x0C: 55,  # DBPointer
    0x0D: 60,  # code
    CODE_WITH_SCOPE: 65,
    0x7F: 127,  # MaxKey
}
"""BSON type -> its place among types (manual: Comparison/Sort Order), the same for all numbers."""


def hashed(value: Any) -> Int64:
    """The hash of one decoded value."""
    raw = encode_document({"": value})
    digest = hashlib.md5(_SEED, usedforsecurity=False)
    for part in _parts(raw, next(elements(raw)), named=False):
        digest.update(part)
    return Int64(_LONG.unpack_from(digest.digest())[0])


def _parts(raw: bytes, element: Element, *, named: bool) -> Iterator[bytes]:
    yield _TYPE.pack(_RANKS[element.kind])
    if named:
        yield element.name.encode() + b"\x00"
    if element.kind in (DOCUMENT, ARRAY):
        yield from _of_document(raw, element.value)
    elif element.kind == CODE_WITH_SCOPE:
        (length,) = _TYPE.unpack_from(raw, element.value + 4)
        scope = element.value + 8 + length
        yield raw[element.value + 8 : scope]
        yield from _of_document(raw, scope)
    elif _RANKS[element.kind] == 10:
        yield _LONG.pack(_whole(raw, element))
    else:
        yield raw[element.value : element.end]


def _of_document(raw: bytes, start: int) -> Iterator[bytes]:
    for element in elements(raw, start):
        yield from _parts(raw, element, named=True)
    yield _END


def _whole(raw: bytes, element: Element) -> int:
    """A number as the 64-bit integer that is hashed: doubles cut off, decimals rounded to even, the rest clamped."""
    if element.kind == DOUBLE:
        (value,) = _DOUBLE.unpack_from(raw, element.value)
        if value != value:
            return 0
        if value == 2.0**63:
            return _LOWEST  # what the cast gave on the processors that data was first hashed on; kept since
        return max(_LOWEST, min(_HIGHEST, int(value))) if abs(value) < 2.0**64 else (_HIGHEST if value > 0 else _LOWEST)
    if element.kind == DECIMAL:
        decimal = Decimal128.from_bid(raw[element.value : element.end]).to_decimal()
        if decimal.is_nan():
            return 0
        if abs(decimal) >= 2**64:
            return _HIGHEST if decimal > 0 else _LOWEST
        return max(_LOWEST, min(_HIGHEST, int(decimal.to_integral_value(ROUND_HALF_EVEN))))
    whole = number(raw, element)
    assert whole is not None
    return whole
