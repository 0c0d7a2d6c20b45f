"""MongoDB's wire protocol as bytes: OP_MSG framing, views on a message, the legacy hello.

Built on `bson`; knows nothing of clusters or sockets. Source of the format: the manual's page "MongoDB Wire Protocol".
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from clusters.wire.walk import ProtocolError as ProtocolError
from clusters.wire.walk import fields, find, number

HEADER: Final = struct.Struct("<iiii")
OP_REPLY: Final = 1
OP_QUERY: Final = 2004
OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013

CHECKSUM_PRESENT: Final = 1
MORE_TO_COME: Final = 1 << 1
EXHAUST_ALLOWED: Final = 1 << 16

MAX_MESSAGE: Final = 48_000_000
"""Bytes; `maxMessageSizeBytes` of every server since 2.4."""

# dict, never SON: SON.__setitem__ is quadratic (10 events of 800 fields: 34.7 ms against 0.99 ms).
# DATETIME_AUTO keeps dates outside of Python's range instead of failing on them.
CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

_INT = struct.Struct("<i")
_HEAD: Final = struct.Struct("<iiiiiBiB")
"""Header, flags, then kind and size of the body and the type of its first field: all before a command's name."""
_FIRST: Final = struct.Struct("<iBi")
"""Flags, kind and size of the first section: mostly the only one."""
_request_ids = itertools.count(1)


def next_request_id() -> int:
    """A request id, unique within this process (it wraps as the field is 31 bits)."""
    return next(_request_ids) & 0x7FFFFFFF


def decode(document: bytes | memoryview) -> dict[str, Any]:
    """One BSON document as a dict."""
    return bson.decode(bytes(document) if isinstance(document, memoryview) else document, CODEC)


def encode_document(document: Mapping[str, Any]) -> bytes:
    """A dict as BSON; field order is kept, but for a top-level `_id`, which `bson` puts first."""
    return bson.encode(document, codec_options=CODEC)


def encode_body(body: bytes, *, request_id: int, response_to: int = 0, flags: int = 0, tail: bytes = b"") -> bytes:
    """An OP_MSG of one body document (BSON bytes); `tail` holds further sections, framed already."""
    length = 16 + 4 + 1 + len(body) + len(tail)
    return b"".join((HEADER.pack(length, request_id, response_to, OP_MSG), _INT.pack(flags), b"\x00", body, tail))


def encode(document: Mapping[str, Any], *, request_id: int, response_to: int = 0, flags: int = 0) -> bytes:
    """An OP_MSG of one body document."""
    return encode_body(encode_document(document), request_id=request_id, response_to=response_to, flags=flags)


def encode_op_reply(document: Mapping[str, Any], *, response_to: int) -> bytes:
    """An OP_REPLY, the answer to the OP_QUERY hello that drivers begin with."""
    body = encode_document(document)
    return (
        HEADER.pack(36 + len(body), next_request_id(), response_to, OP_REPLY) + struct.pack("<iqii", 8, 0, 0, 1) + body
    )


class Message:
    """A view on one whole message; sections are found, not decoded, until asked for.

    The BSON of section 0 (of the query document for OP_QUERY) is `raw[begin:end]`, or `body`; `sequences` yields each
    kind-1 section as (identifier, BSON documents).
    """

    __slots__ = ("_command", "_fields", "_tail", "begin", "end", "flags", "op", "raw", "request_id", "response_to")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._tail: tuple[tuple[int, int, int], ...] = ()
        self._command: str | None = None
        self._fields: dict[bytes, int] | None = None
        _length, self.request_id, self.response_to, self.op = HEADER.unpack_from(raw)
        if self.op == OP_MSG:
            if len(raw) < 16 + _FIRST.size:
                raise ProtocolError("OP_MSG without a body section")
            self.flags, kind, size = _FIRST.unpack_from(raw, 16)
            self.begin, self.end = 21, 21 + size
            if kind != 0 or self.end != len(raw) or size < 5 or self.flags & CHECKSUM_PRESENT:
                self._find_sections()
        elif self.op == OP_QUERY:
            (self.flags,) = _INT.unpack_from(raw, 16)
            self.begin = raw.index(b"\x00", 20) + 1 + 8
            self.end = self.begin + _INT.unpack_from(raw, self.begin)[0]
        elif self.op == OP_REPLY:
            self.flags = 0
            self.begin, self.end = 36, len(raw)
        else:
            raise ProtocolError(f"op code {self.op} is not spoken here (OP_MSG without compression is)")

    def _find_sections(self) -> None:
        raw = self.raw
        end = len(raw) - (4 if self.flags & CHECKSUM_PRESENT else 0)
        at = 20
        tail: list[tuple[int, int, int]] = []
        self.begin = 0
        while at < end:
            kind = raw[at]
            at += 1
            (size,) = _INT.unpack_from(raw, at)
            if size < 5 or at + size > end:
                raise ProtocolError(f"OP_MSG section of {size} bytes does not fit its message")
            if kind == 0:
                if self.begin:
                    raise ProtocolError("OP_MSG with two body sections")
                self.begin, self.end = at, at + size
            elif kind == 1:
                name_end = raw.find(0, at + 4, at + size)
                if name_end < 0:
                    raise ProtocolError("OP_MSG document sequence without a name")
                tail.append((at, name_end, at + size))
            else:
                raise ProtocolError(f"OP_MSG section kind {kind} is unknown")
            at += size
        if not self.begin:
            raise ProtocolError("OP_MSG without a body section")
        self._tail = tuple(tail)

    @property
    def body(self) -> bytes:
        return self.raw[self.begin : self.end]

    @property
    def fields(self) -> dict[bytes, int]:
        """Name of each top-level field of the body -> where in `raw` its element begins. Raises ProtocolError."""
        if self._fields is None:
            self._fields = fields(self.raw, self.begin)
        return self._fields

    def number(self, name: bytes) -> int | None:
        """The number or bool in a top-level field; None where it is neither, or not there."""
        at = find(self.raw, self.begin, name) if self._fields is None else self._fields.get(name, -1)
        return None if at < 0 else number(self.raw, self.raw[at], at + len(name) + 2)

    def renamed(self, command: bytes) -> bytes:
        """The same command under another name, framed. Its request id is kept.

        Not its flags, which are between two neighbours, nor its checksum, which would no longer fit.
        """
        raw, end = self.raw, self.end
        rest = raw.index(0, self.begin + 5, end)
        in_order = self.begin == 21 and not self.flags & CHECKSUM_PRESENT
        following = raw[rest:] if in_order else raw[rest:end] + self.tail
        size = 5 + len(command) + end - rest
        length = _HEAD.size + len(command) + len(following)
        head = _HEAD.pack(length, self.request_id, 0, OP_MSG, 0, 0, size, raw[self.begin + 4])
        return b"".join((head, command, following))

    @property
    def has_sequences(self) -> bool:
        return bool(self._tail)

    @property
    def tail(self) -> bytes:
        """The kind-1 sections, framed, as they can be put behind another body."""
        return b"".join(b"\x01" + self.raw[start:end] for start, _name_end, end in self._tail)

    @property
    def identifiers(self) -> list[bytes]:
        """Of each kind-1 section."""
        return [self.raw[start + 4 : name_end] for start, name_end, _end in self._tail]

    def sequences(self) -> Iterator[tuple[str, list[bytes]]]:
        """Each kind-1 section: its identifier and its documents, not decoded."""
        for start, name_end, end in self._tail:
            yield self.raw[start + 4 : name_end].decode(), list(split_documents(self.raw, name_end + 1, end))

    @property
    def command(self) -> str:
        """The command's name: the first key of the body."""
        if self._command is None:
            name = self.begin + 5
            self._command = "" if self.end <= name else self.raw[name : self.raw.index(0, name, self.end)].decode()
        return self._command

    def document(self) -> dict[str, Any]:
        """The whole command: body decoded, kind-1 sections put in as arrays."""
        document = decode(self.body)
        for identifier, documents in self.sequences():
            if identifier in document:
                raise ProtocolError(f"field {identifier!r} stands in the body and in a document sequence")
            document[identifier] = [decode(one) for one in documents]
        return document


def split_documents(raw: bytes, start: int, end: int) -> Iterator[bytes]:
    """The BSON documents that lie end to end in `raw[start:end]`."""
    while start < end:
        (size,) = _INT.unpack_from(raw, start)
        if size < 5 or start + size > end:
            raise ProtocolError(f"a document of {size} bytes does not fit its section")
        yield raw[start : start + size]
        start += size


def encode_sequence(identifier: str, documents: Iterable[bytes]) -> bytes:
    """A kind-1 section of BSON documents, framed, for `encode_body(tail=...)`."""
    payload = identifier.encode() + b"\x00" + b"".join(documents)
    return b"\x01" + _INT.pack(4 + len(payload)) + payload
