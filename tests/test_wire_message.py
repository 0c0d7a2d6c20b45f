"""Framing: what goes in comes out, and bytes that are no message are a ProtocolError."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bson_values import documents, names, repeatedly, values
from clusters.wire.message import (
    CHECKSUM_PRESENT,
    HEADER,
    MORE_TO_COME,
    OP_COMPRESSED,
    OP_QUERY,
    OP_REPLY,
    Message,
    ProtocolError,
    decode,
    encode,
    encode_body,
    encode_document,
    encode_op_reply,
    encode_sequence,
)

ids = st.integers(0, 2**31 - 1)


@repeatedly
@given(documents, ids, ids)
def test_a_document_survives_the_frame(document: dict[str, Any], request_id: int, response_to: int) -> None:
    raw = encode(document, request_id=request_id, response_to=response_to)
    message = Message(raw)
    assert HEADER.unpack_from(raw)[0] == len(raw)
    assert (message.request_id, message.response_to) == (request_id, response_to)
    assert message.body == encode_document(document)
    assert message.command == next(iter(document), "")
    assert not message.has_sequences


@repeatedly
@given(documents, st.dictionaries(names, st.lists(documents, max_size=3), max_size=3), st.booleans())
def test_document_sequences_become_fields(
    body: dict[str, Any], sequences: dict[str, list[dict[str, Any]]], checksum: bool
) -> None:
    body = {name: value for name, value in body.items() if name not in sequences}
    tail = b"".join(encode_sequence(name, map(encode_document, many)) for name, many in sequences.items())
    flags = CHECKSUM_PRESENT if checksum else 0
    raw = encode_body(encode_document(body), request_id=1, flags=flags, tail=tail + b"\x01\x02\x03\x04" * checksum)
    message = Message(raw)
    assert message.tail == tail
    assert encode_document(message.document()) == encode_document(
        {
            **decode(encode_document(body)),
            **{name: [decode(encode_document(one)) for one in many] for name, many in sequences.items()},
        }
    )


@repeatedly
@given(names, values, documents, names, st.integers(0, 2), st.booleans())
def test_renaming_a_command_is_decoding_and_encoding_under_the_new_name(
    old: str, value: Any, rest: dict[str, Any], new: str, sequences: int, checksum: bool
) -> None:
    rest = {name: value for name, value in rest.items() if name not in (old, new, "0", "1")}
    tail = b"".join(encode_sequence(str(one), [encode_document(rest)] * one) for one in range(sequences))
    flags = MORE_TO_COME | (CHECKSUM_PRESENT if checksum else 0)
    given_bytes = encode_body(
        encode_document({old: value, **rest}), request_id=7, flags=flags, tail=tail + b"\x01\x02\x03\x04" * checksum
    )
    expected = encode_body(encode_document({new: value, **rest}), request_id=7, tail=tail)
    assert Message(given_bytes).renamed(new.encode()) == expected


@repeatedly
@given(documents)
def test_the_fields_of_a_command_are_found_where_they_are(document: dict[str, Any]) -> None:
    message = Message(encode({"ping": 1, **document}, request_id=1))
    assert list(message.fields) == [name.encode() for name in {"ping": 1, **document}]
    for name, value in document.items():
        # What an int64 holds; of doubles -2**63 is left out with all that might be rounded.
        fits = isinstance(value, int) or (isinstance(value, float) and abs(value) < 2**63)
        expected = int(value) if fits else None
        assert message.number(name.encode()) == expected
    assert message.number(b"no such field") is None


def test_a_field_in_the_body_and_in_a_sequence_is_an_error() -> None:
    tail = encode_sequence("documents", [encode_document({})])
    message = Message(encode_body(encode_document({"insert": "c", "documents": []}), request_id=1, tail=tail))
    with pytest.raises(ProtocolError, match="documents"):
        message.document()


@repeatedly
@given(documents, st.integers(0, 400), st.integers(0, 255))
def test_damaged_bytes_raise_nothing_unexpected(document: dict[str, Any], at: int, byte: int) -> None:
    raw = bytearray(
        encode_body(encode_document({"ping": 1}), request_id=1, tail=encode_sequence("d", [encode_document(document)]))
    )
    raw[16 + at % (len(raw) - 16)] = byte
    try:
        message = Message(bytes(raw))
        list(message.sequences())
    except (ProtocolError, ValueError, struct.error):
        pass


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "without a body"),
        (b"\x00\x05\x00\x00\x00\x00" * 2, "two body sections"),
        (b"\x07\x05\x00\x00\x00\x00", "kind 7"),
        (b"\x00\xff\x00\x00\x00\x00", "does not fit"),
        (b"\x00\x01\x00\x00\x00\x00", "does not fit"),
    ],
)
def test_sections_that_do_not_add_up_are_refused(payload: bytes, said: str) -> None:
    raw = HEADER.pack(20 + len(payload), 1, 0, 2013) + b"\x00" * 4 + payload
    with pytest.raises(ProtocolError, match=said):
        Message(raw)


def test_compressed_messages_are_refused_by_name() -> None:
    with pytest.raises(ProtocolError, match="without compression"):
        Message(HEADER.pack(16, 1, 0, OP_COMPRESSED))


def test_the_legacy_hello_is_read_and_answered() -> None:
    body = encode_document({"ismaster": 1, "helloOk": True})
    query = b"\x00" * 4 + b"admin.$cmd\x00" + struct.pack("<ii", 0, -1) + body
    message = Message(HEADER.pack(16 + len(query), 3, 0, OP_QUERY) + query)
    assert (message.command, message.document()) == ("ismaster", {"ismaster": 1, "helloOk": True})
    reply = Message(encode_op_reply({"ok": 1.0}, response_to=3))
    assert (reply.op, reply.response_to, reply.document()) == (OP_REPLY, 3, {"ok": 1.0})
