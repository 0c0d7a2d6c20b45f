"""Bytes that arrive in any pieces come out as the messages they are, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bson_values import documents, repeatedly
from clusters.wire.framing import read_room, take
from clusters.wire.message import HEADER, MAX_MESSAGE, OP_MSG, OP_QUERY, ProtocolError, encode

SPOKEN = (OP_MSG,)


@repeatedly
@given(st.lists(documents, max_size=4), st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_messages_come_out_whole_and_in_order_however_they_arrive(many: list[dict[str, Any]], cuts: list[int]) -> None:
    sent = [encode(one, request_id=number) for number, one in enumerate(many)]
    stream, kept, got = b"".join(sent), bytearray(), []
    while stream:
        for cut in cuts:
            got += take(kept, memoryview(stream[:cut]), SPOKEN)
            stream = stream[cut:]
    assert got == sent
    assert not kept


def test_a_message_may_come_with_the_beginning_of_the_next() -> None:
    one, other = encode({"a": 1}, request_id=1), encode({"b": 1}, request_id=2)
    kept = bytearray()
    assert take(kept, memoryview(one + other[:20]), SPOKEN) == [one]
    assert take(kept, memoryview(other[20:]), SPOKEN) == [other]


@pytest.mark.parametrize(
    ("junk", "found"),
    [
        (b"\x16\x03\x01\x00\x05" + b"\x00" * 11, "TLS"),
        (HEADER.pack(15, 1, 0, OP_MSG), "length 15"),
        (HEADER.pack(-1, 1, 0, OP_MSG), "length -1"),
        (HEADER.pack(MAX_MESSAGE + 1, 1, 0, OP_MSG), "length 48000001"),
        (HEADER.pack(16, 1, 0, OP_QUERY), "op code 2004"),
        (b"GET / HTTP/1.1\r\n", "no message"),
    ],
)
def test_bytes_that_begin_no_message_are_told_before_the_message_is_whole(junk: bytes, found: str) -> None:
    with pytest.raises(ProtocolError, match=found):
        take(bytearray(), memoryview(junk), SPOKEN)
    with pytest.raises(ProtocolError, match=found):
        take(bytearray(), memoryview(encode({"a": 1}, request_id=1) + junk), SPOKEN)


def test_all_connections_of_a_thread_read_into_one_buffer() -> None:
    assert read_room() is read_room()
