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

READ_BYTES: Final = 64 * 1024
"""What a connection reads at once, into a buffer it keeps (`asyncio.BufferedProtocol`).

A plain `asyncio.Protocol` allocates 256 KiB for each read, which malloc maps and unmaps every time: a short message
over loopback then costs 12.7 us of CPU instead of 2.4.
"""

# dict, never SON: SON.__setitem__ is quadratic (10 events of 800 fields: 34.7 ms against 0.99 ms).
# DATETIME_AUTO keeps dates outside of Python's range instead of failing on them.
CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

_INT = struct.Struct("<i")
_request_ids = itertools.count(1)


class ProtocolError(Exception):
    """Bytes that are no message this project speaks; says what was found."""


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

    `body` is the BSON of section 0 (of the query document for OP_QUERY); `sequences` yields each
    kind-1 section as (identifier, BSON documents).
    """

    __slots__ = ("_command", "_tail", "body", "flags", "op", "raw", "request_id", "response_to")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._tail: tuple[tuple[int, int], ...] = ()
        self._command: str | None = None
        _length, self.request_id, self.response_to, self.op = HEADER.unpack_from(raw)
        if self.op == OP_MSG:
            self._parse_op_msg()
        elif self.op == OP_QUERY:
            self._parse_op_query()
        elif self.op == OP_REPLY:
            self.flags = 0
            self.body = raw[36:]
        else:
            raise ProtocolError(f"op code {self.op} is not spoken here (OP_MSG without compression is)")

    def _parse_op_msg(self) -> None:
        raw = self.raw
        (self.flags,) = _INT.unpack_from(raw, 16)
        end = len(raw) - (4 if self.flags & CHECKSUM_PRESENT else 0)
        at = 20
        tail: list[tuple[int, int]] = []
        body: bytes | None = None
        while at < end:
            kind = raw[at]
            at += 1
            (size,) = _INT.unpack_from(raw, at)
            if size < 5 or at + size > end:
                raise ProtocolError(f"OP_MSG section of {size} bytes does not fit its message")
            if kind == 0:
                if body is not None:
                    raise ProtocolError("OP_MSG with two body sections")
                body = raw[at : at + size]
            elif kind == 1:
                tail.append((at, at + size))
            else:
                raise ProtocolError(f"OP_MSG section kind {kind} is unknown")
            at += size
        if body is None:
            raise ProtocolError("OP_MSG without a body section")
        self.body = body
        self._tail = tuple(tail)

    def _parse_op_query(self) -> None:
        raw = self.raw
        (self.flags,) = _INT.unpack_from(raw, 16)
        at = raw.index(b"\x00", 20) + 1 + 8
        (size,) = _INT.unpack_from(raw, at)
        self.body = raw[at : at + size]

    @property
    def has_sequences(self) -> bool:
        return bool(self._tail)

    @property
    def tail(self) -> bytes:
        """The kind-1 sections, framed, as they can be put behind another body."""
        return b"".join(b"\x01" + self.raw[start:end] for start, end in self._tail)

    def sequences(self) -> Iterator[tuple[str, list[bytes]]]:
        """Each kind-1 section: its identifier and its documents, not decoded."""
        for start, end in self._tail:
            stop = self.raw.index(b"\x00", start + 4, end)
            yield self.raw[start + 4 : stop].decode(), list(split_documents(self.raw, stop + 1, end))

    @property
    def command(self) -> str:
        """The command's name: the first key of the body."""
        if self._command is None:
            body = self.body
            self._command = "" if len(body) <= 5 else body[5 : body.index(b"\x00", 5)].decode()
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
