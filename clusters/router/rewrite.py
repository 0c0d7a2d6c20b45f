"""BSON as bytes: walk the elements of a document, rename a command, drop and append fields, without decoding.

Source of the format: bsonspec.org, version 1.1. Knows nothing of commands or clusters.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from clusters.wire.message import ProtocolError

_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")

DOUBLE: Final = 0x01
STRING: Final = 0x02
DOCUMENT: Final = 0x03
ARRAY: Final = 0x04
BOOL: Final = 0x08
INT32: Final = 0x10
TIMESTAMP: Final = 0x11
INT64: Final = 0x12

_FIXED: Final = {
    DOUBLE: 8,
    0x06: 0,  # undefined
    0x07: 12,  # ObjectId
    BOOL: 1,
    0x09: 8,  # date
    0x0A: 0,  # null
    INT32: 4,
    TIMESTAMP: 8,
    INT64: 8,
    0x13: 16,  # decimal128
    0x7F: 0,  # MaxKey
    0xFF: 0,  # MinKey
}
_STRINGS: Final = frozenset((STRING, 0x0D, 0x0E))  # string, code, symbol: a length, then as many bytes
_SIZED: Final = frozenset((DOCUMENT, ARRAY, 0x0F))  # a length that counts itself


class Element(NamedTuple):
    """One element: `raw[start:end]` with its type byte and name, its value from `value` on."""

    kind: int
    name: str
    start: int
    value: int
    end: int


def elements(raw: bytes, start: int = 0) -> Iterator[Element]:
    """The elements of the document that begins at `raw[start]`. Raises ProtocolError on bytes that are no BSON."""
    try:
        (size,) = _INT.unpack_from(raw, start)
        stop = start + size - 1
        if size < 5 or stop >= len(raw) or raw[stop] != 0:
            raise ProtocolError(f"a BSON document of {size} bytes does not fit or does not end in 0")
        at = start + 4
        while at < stop:
            kind = raw[at]
            name_end = raw.index(0, at + 1, stop)
            value = name_end + 1
            fixed = _FIXED.get(kind)
            end = value + fixed if fixed is not None else _end_of(raw, kind, value, stop)
            if end > stop:
                raise ProtocolError(f"BSON element {raw[at + 1 : name_end]!r} runs past the end of its document")
            yield Element(kind, str(raw[at + 1 : name_end], "utf-8"), at, value, end)
            at = end
    except (ValueError, struct.error, IndexError) as error:  # UnicodeDecodeError is a ValueError
        raise ProtocolError(f"bytes that are no BSON: {error}") from error


def _end_of(raw: bytes, kind: int, value: int, stop: int) -> int:
    if kind == 0x0B:  # regex: two strings that end in 0
        return raw.index(b"\x00", raw.index(b"\x00", value, stop) + 1, stop) + 1
    size: int = _INT.unpack_from(raw, value)[0]
    if kind in _STRINGS:
        end = value + 4 + size
        floor = 1
    elif kind in _SIZED:
        end = value + size
        floor = 5
    elif kind == 0x05:  # binary: length, subtype, bytes
        end = value + 5 + size
        floor = 0
    elif kind == 0x0C:  # DBPointer: string, ObjectId
        end = value + 4 + size + 12
        floor = 1
    else:
        raise ProtocolError(f"BSON type 0x{kind:02x} is unknown")
    if size < floor:
        raise ProtocolError(f"BSON length {size} is impossible for type 0x{kind:02x}")
    return end


def document_at(raw: bytes, element: Element) -> bytes:
    """The bytes of an embedded document or array."""
    return raw[element.value : element.end]


def array_documents(raw: bytes, element: Element) -> list[bytes]:
    """The documents in an array. Raises ProtocolError where a member is no document."""
    documents = []
    for member in elements(raw, element.value):
        if member.kind != DOCUMENT:
            raise ProtocolError(f"expected an array of documents in {element.name!r}, found BSON type {member.kind}")
        documents.append(raw[member.value : member.end])
    return documents


def number(raw: bytes, element: Element) -> int | None:
    """A number or bool as int, None for any other type."""
    if element.kind == INT64:
        return int(_LONG.unpack_from(raw, element.value)[0])
    if element.kind == INT32:
        return int(_INT.unpack_from(raw, element.value)[0])
    if element.kind == BOOL:
        return raw[element.value]
    if element.kind == DOUBLE:
        value = _DOUBLE.unpack_from(raw, element.value)[0]
        return int(value) if value == value and abs(value) < 2**63 else None
    return None


def failed(reply: bytes) -> bool:
    """Whether a reply's body is that of a failed command. `ok` comes first in most of them, not in findAndModify's."""
    for element in elements(reply):
        if element.name == "ok":
            return number(reply, element) != 1
    return True


def rename_first(raw: bytes, name: str) -> bytes:
    """The same document with its first field, a command's name, called `name`."""
    end = raw.index(b"\x00", 5)
    new = name.encode()
    return b"".join((_INT.pack(len(raw) + len(new) - (end - 5)), raw[4:5], new, raw[end:]))


def without(raw: bytes, names: Collection[str], *, append: bytes = b"") -> bytes:
    """The document without its top-level fields of these names, with the fields of the document `append` behind."""
    kept: list[bytes] = []
    begin = 4
    for element in elements(raw):
        if element.name in names:
            kept.append(raw[begin : element.start])
            begin = element.end
    kept.append(raw[begin : len(raw) - 1])
    if append:
        kept.append(append[4:-1])
    size = 5 + sum(map(len, kept))
    return b"".join((_INT.pack(size), *kept, b"\x00"))


def keys_anywhere(raw: bytes, start: int = 0) -> Iterator[str]:
    """Every field name of a document, at any depth."""
    for element in elements(raw, start):
        yield element.name
        if element.kind in (DOCUMENT, ARRAY):
            yield from keys_anywhere(raw, element.value)
        elif element.kind == 0x0F:  # code with scope: total length, string, scope document
            (code,) = _INT.unpack_from(raw, element.value + 4)
            yield from keys_anywhere(raw, element.value + 8 + code)
