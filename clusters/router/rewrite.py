"""BSON as bytes: walk the elements of a document, drop and append fields, without decoding.

Source of the format: bsonspec.org, version 1.1. Knows nothing of commands or clusters.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from clusters.wire import walk
from clusters.wire.message import ProtocolError

_INT: Final = struct.Struct("<i")

DOUBLE: Final = 0x01
STRING: Final = 0x02
DOCUMENT: Final = 0x03
ARRAY: Final = 0x04
INT32: Final = 0x10
INT64: Final = 0x12


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
            end = walk.end_of(raw, kind, value, stop)
            if end > stop:
                raise ProtocolError(f"BSON element {raw[at + 1 : name_end]!r} runs past the end of its document")
            yield Element(kind, str(raw[at + 1 : name_end], "utf-8"), at, value, end)
            at = end
    except (ValueError, struct.error, IndexError) as error:  # UnicodeDecodeError is a ValueError
        raise ProtocolError(f"bytes that are no BSON: {error}") from error


def document_at(raw: bytes, element: Element) -> bytes:
    """The bytes of an embedded document or array."""
    return raw[element.value : element.end]


def number(raw: bytes, element: Element) -> int | None:
    """A number or bool as int, None for any other type."""
    return walk.number(raw, element.kind, element.value)


def failed(reply: bytes) -> bool:
    """Whether a reply's body is that of a failed command. `ok` comes first in most of them, not in findAndModify's."""
    for element in elements(reply):
        if element.name == "ok":
            return number(reply, element) != 1
    return True


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
