"""Where the top-level fields of a BSON document lie: one walk, nothing decoded.

For the bytes every command passes through; what the fields mean is for others. Source of the format: bsonspec.org, 1.1.
"""

from __future__ import annotations

import struct
from typing import Final

_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")


class ProtocolError(Exception):
    """Bytes that are no message this project speaks; says what was found."""


# Type -> bytes of a value beside what its leading length says; the least that length can be, None where there is none.
_SHAPES: Final[dict[int, tuple[int, int | None]]] = {
    0x01: (8, None),  # double
    0x02: (4, 1),  # string: a length, then as many bytes
    0x03: (0, 5),  # document: a length that counts itself
    0x04: (0, 5),  # array
    0x05: (5, 0),  # binary: length, subtype, bytes; can be empty
    0x06: (0, None),  # undefined
    0x07: (12, None),  # ObjectId
    0x08: (1, None),  # bool
    0x09: (8, None),  # date
    0x0A: (0, None),  # null
    0x0C: (16, 1),  # DBPointer: a string, then an ObjectId
    0x0D: (4, 1),  # code
    0x0E: (4, 1),  # symbol
    0x0F: (0, 5),  # code with scope
    0x10: (4, None),  # int32
    0x11: (8, None),  # timestamp
    0x12: (8, None),  # int64
    0x13: (16, None),  # decimal128
    0x7F: (0, None),  # MaxKey
    0xFF: (0, None),  # MinKey
}
_REGEX: Final = 0x0B


def end_of(raw: bytes, kind: int, value: int, stop: int) -> int:
    """Where the value that begins at `value` ends. Raises ProtocolError, ValueError, struct.error."""
    shape = _SHAPES.get(kind)
    if shape is None:
        if kind != _REGEX:
            raise ProtocolError(f"BSON type 0x{kind:02x} is unknown")
        return raw.index(0, raw.index(0, value, stop) + 1, stop) + 1  # two strings that end in 0
    more, least = shape
    if least is None:
        return value + more
    (size,) = _INT.unpack_from(raw, value)
    if size < least:
        raise ProtocolError(f"BSON length {size} is impossible for type 0x{kind:02x}")
    return value + more + int(size)


def number(raw: bytes, kind: int, value: int) -> int | None:
    """A number or bool as int, None for any other type."""
    if kind == 0x12:
        return int(_LONG.unpack_from(raw, value)[0])
    if kind == 0x10:
        return int(_INT.unpack_from(raw, value)[0])
    if kind == 0x08:
        return raw[value]
    if kind == 0x01:
        found = _DOUBLE.unpack_from(raw, value)[0]
        return int(found) if found == found and abs(found) < 2**63 else None
    return None


def _stop(raw: bytes, start: int) -> int:
    """Where the 0 is that ends the document at `raw[start]`."""
    stop: int = start + _INT.unpack_from(raw, start)[0] - 1
    if stop < start + 4 or raw[stop] != 0:
        raise ProtocolError(f"a BSON document of {stop + 1 - start} bytes does not fit or does not end in 0")
    return stop


def fields(raw: bytes, start: int = 0) -> dict[bytes, int]:
    """Name -> where its element begins (its type byte), in the document at `raw[start]`.

    Raises ProtocolError on bytes that are no BSON, and on a name that stands twice: nobody can tell which one counts.
    """
    found: dict[bytes, int] = {}
    index, unpack, shapes = raw.index, _INT.unpack_from, _SHAPES
    try:
        stop = _stop(raw, start)
        at = start + 4
        while at < stop:
            name_end = index(0, at + 1, stop)
            name = raw[at + 1 : name_end]
            if name in found:
                raise ProtocolError(f"field {name.decode()!r} stands twice")
            found[name] = at
            kind = raw[at]
            # As in `end_of`, whose call would be a third of the walk.
            if kind not in shapes:
                at = end_of(raw, kind, name_end + 1, stop)
                continue
            more, least = shapes[kind]
            at = name_end + 1 + more
            if least is not None:
                size = unpack(raw, name_end + 1)[0]
                if size < least:
                    raise ProtocolError(f"BSON length {size} is impossible for type 0x{kind:02x}")
                at += size
        if at != stop:
            raise ProtocolError(f"BSON element {name!r} runs past the end of its document")
    except (ValueError, struct.error, IndexError) as error:  # UnicodeDecodeError is a ValueError
        raise ProtocolError(f"bytes that are no BSON: {error}") from error
    return found


def find(raw: bytes, start: int, name: bytes) -> int:
    """Where the element of that name begins in the document at `raw[start]`; -1 if there is none.

    It walks no further than there. Raises ProtocolError on bytes that are no BSON up to there.
    """
    wanted = name + b"\x00"
    try:
        stop = _stop(raw, start)
        at = start + 4
        while at < stop:
            if raw.startswith(wanted, at + 1):
                return at
            at = end_of(raw, raw[at], raw.index(0, at + 1, stop) + 1, stop)
    except (ValueError, struct.error, IndexError) as error:
        raise ProtocolError(f"bytes that are no BSON: {error}") from error
    return -1
