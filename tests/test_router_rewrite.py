"""Rewriting commands as bytes gives what decoding, changing and encoding again would give."""

from __future__ import annotations

import contextlib
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bson_values import documents, repeatedly
from clusters.router.rewrite import elements, keys_anywhere, number, without
from clusters.wire.message import ProtocolError, encode_document


def decoded_keys(value: Any) -> list[str]:
    """Every field name, by way of the decoder."""
    if isinstance(value, dict):
        return [name for key, inner in value.items() for name in (key, *decoded_keys(inner))]
    if isinstance(value, list):
        return [name for index, inner in enumerate(value) for name in (str(index), *decoded_keys(inner))]
    if isinstance(value, bson.Code) and value.scope is not None:
        return decoded_keys(value.scope)
    return []


@repeatedly
@given(documents, st.data())
def test_dropping_fields_is_decoding_and_encoding_without_them(document: dict[str, Any], data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.sampled_from(sorted(document)))) if document else set()
    added = data.draw(documents)
    kept = {name: value for name, value in document.items() if name not in dropped}
    assert without(encode_document(document), dropped) == encode_document(kept)
    extra = {name: value for name, value in added.items() if name not in kept}
    raw = without(encode_document(document), dropped, append=encode_document(extra))
    assert raw == encode_document({**kept, **extra})


@repeatedly
@given(documents)
def test_walking_finds_every_element_where_it_is(document: dict[str, Any]) -> None:
    raw = encode_document(document)
    found = list(elements(raw))
    assert [one.name for one in found] == list(document)
    parts = b"".join(raw[one.start : one.end] for one in found)
    assert parts == raw[4:-1]


@repeatedly
@given(documents)
def test_keys_are_found_at_any_depth(document: dict[str, Any]) -> None:
    assert list(keys_anywhere(encode_document(document))) == decoded_keys(document)


@repeatedly
@given(documents, st.integers(0, 200), st.integers(0, 255))
def test_damaged_bytes_are_a_protocol_error_and_nothing_else(document: dict[str, Any], at: int, byte: int) -> None:
    raw = bytearray(encode_document(document))
    raw[at % len(raw)] = byte
    with contextlib.suppress(ProtocolError):
        list(keys_anywhere(bytes(raw)))


@pytest.mark.parametrize("raw", [b"", b"\x05\x00\x00", b"\x06\x00\x00\x00\x00", b"\x05\x00\x00\x00\x01", b"\xff" * 8])
def test_what_is_no_document_is_a_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(elements(raw))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (2**40, 2**40), (1.9, 1), (True, 1), (False, 0), (float("inf"), None), ("1", None), (None, None)],
)
def test_a_number_is_read_from_any_numeric_type(value: Any, expected: int | None) -> None:
    raw = encode_document({"a": value})
    assert number(raw, next(elements(raw))) == expected
