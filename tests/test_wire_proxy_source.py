"""Who connects, told from its first message; and that message without compression."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from bson_values import documents, repeatedly
from clusters.wire.message import CHECKSUM_PRESENT, HEADER, OP_QUERY, Message, decode, encode, encode_document
from clusters.wire.proxy.source import Source, identify, without_compression

PEERS = {"127.0.0.1:20001": "rs0-0", "127.0.0.1:20002": "rs0-1", "10.0.0.1:27017": "far-0", "10.0.0.2:27017": "far-1"}
COMPRESSORS = ["snappy", "zstd", "zlib"]


def hello(driver: str = "PyMongo|c", app: str = "", **more: Any) -> dict[str, Any]:
    client: dict[str, Any] = {"driver": {"name": driver, "version": "1"}}
    if app:
        client["application"] = {"name": app}
    return {"isMaster": 1, "client": client, **more, "$db": "admin"}


MEMBER: dict[str, Any] = {"internalClient": {"minWireVersion": 6, "maxWireVersion": 17}, "compression": COMPRESSORS}


@pytest.mark.parametrize(
    ("sent", "source"),
    [
        # As a 6.0.5 mongod and pymongo 4.20 send it; the docstring of `source` has the table.
        (hello("NetworkInterfaceTL-ReplNetwork", hostInfo="vm:20001", **MEMBER), ("rs0-0", "")),
        (hello("MongoDB Internal Client", "OplogFetcher", hostInfo="vm:20002", **MEMBER), ("rs0-1", "OplogFetcher")),
        (hello("NetworkInterfaceTL-ReplNetwork", hostInfo="10.0.0.2:27017", **MEMBER), ("far-1", "")),
        # Two peers have this port.
        (hello("NetworkInterfaceTL-ReplNetwork", hostInfo="vm:27017", **MEMBER), ("unknown", "")),
        # Without test commands a server does not say which one it is.
        (hello("NetworkInterfaceTL-ReplNetwork", **MEMBER), ("unknown", "")),
        (hello("MongoDB Internal Client", "OplogFetcher", **MEMBER), ("unknown", "OplogFetcher")),
        (hello("mongofault", "mongofault router", **MEMBER), ("router", "mongofault router")),
        (hello("mongofault", "mongofault router monitor"), ("router", "mongofault router monitor")),
        (hello("mongofault", "mongofault", **MEMBER), ("driver", "mongofault")),
        (hello(app="shop"), ("driver", "shop")),
        ({"hello": 1, "$db": "admin"}, ("driver", "")),
        ({"_isSelf": 1, "$db": "admin"}, ("unknown", "")),
    ],
)
def test_the_first_message_says_who_connects(sent: dict[str, Any], source: tuple[str, str]) -> None:
    found = identify(Message(encode(sent, request_id=1)), PEERS)
    assert (found.name, found.app) == source


def test_the_legacy_hello_says_it_too() -> None:
    body = encode_document(hello(app="shop", compression=COMPRESSORS))
    rest = b"\x00" * 4 + b"admin.$cmd\x00" + b"\x00" * 4 + b"\xff" * 4 + body
    message = Message(HEADER.pack(16 + len(rest), 7, 0, OP_QUERY) + rest)
    assert identify(message, PEERS) == Source("driver", "shop", "PyMongo|c")
    changed = Message(without_compression(message))
    assert decode(changed.body) == {**hello(app="shop"), "compression": []}
    assert HEADER.unpack_from(changed.raw) == (len(changed.raw), 7, 0, OP_QUERY)


def checked(raw: bytes) -> bytes:
    """With a checksum, which nobody here can verify."""
    length, *others = HEADER.unpack_from(raw)
    return HEADER.pack(length + 4, *others) + CHECKSUM_PRESENT.to_bytes(4, "little") + raw[20:] + b"\xaa\xbb\xcc\xdd"


@repeatedly
@given(documents, documents)
def test_compression_is_declined_and_nothing_else_changes(before: dict[str, Any], after: dict[str, Any]) -> None:
    before = {name: value for name, value in before.items() if name != "compression"}
    after = {name: value for name, value in after.items() if name != "compression" and name not in before}
    raw = encode({**before, "compression": COMPRESSORS, **after}, request_id=3)
    want = encode({**before, "compression": [], **after}, request_id=3)
    assert without_compression(Message(raw)) == want
    assert without_compression(Message(checked(raw))) == want
    # What is not changed keeps its checksum.
    assert without_compression(Message(checked(want))) == checked(want)
    plain = encode({**before, **after}, request_id=3)
    assert without_compression(Message(plain)) == plain
