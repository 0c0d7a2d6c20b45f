"""What `$currentOp` of 6.0.5 shows of streams, lookups and writes of strangers; and readings made of it."""

from __future__ import annotations

import uuid
from typing import Any

from bson.binary import UUID_SUBTYPE, Binary

from clusters.topology import Role
from harness.watchers.watched import WatchedMember

MEMBERS = [
    WatchedMember(f"{name}-{index}", f"127.0.0.1:{port + index}", Role.SHARD, name)
    for name, port in (("shard0", 20_000), ("shard1", 21_000))
    for index in range(3)
]


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def lsid(number: int) -> dict[str, Any]:
    return {"id": Binary(uuid.UUID(int=number << 96).bytes, UUID_SUBTYPE)}


def named(number: int) -> str:
    """How a stream of that session is called."""
    return f"app.orders {number:08x}"


def getmore(session: int = 1, seconds: float = 0.3, *, documents: int = 5, **changes: Any) -> dict[str, Any]:
    """A stream that is being read."""
    return {
        "type": "op", "opid": 100 + session, "op": "getmore", "ns": "app.orders", "lsid": lsid(session),
        "microsecs_running": int(seconds * 1e6), "numYields": 6,
        "command": {"getMore": 5, "maxTimeMS": 1000},
        "cursor": {"cursorId": 5, "tailable": True, "nDocsReturned": documents, "nBatchesReturned": 4},
        **changes,
    }  # fmt: skip


def idle(session: int = 1, *, documents: int = 5, batches: int = 4, **changes: Any) -> dict[str, Any]:
    """A stream between two getMores."""
    return {
        "type": "idleCursor", "ns": "app.orders", "lsid": lsid(session),
        "cursor": {"cursorId": 5, "tailable": True, "nDocsReturned": documents, "nBatchesReturned": batches},
        **changes,
    }  # fmt: skip


def lookup(session: int = 1, seconds: float = 5.0, **changes: Any) -> dict[str, Any]:
    """The lookup of a post-image, on the member that is to answer it."""
    return {
        "type": "op", "opid": 900 + session, "op": "command", "ns": "app.$cmd", "lsid": lsid(session),
        "microsecs_running": int(seconds * 1e6),
        "command": {"aggregate": "orders", "pipeline": [{"$match": {"region": 0, "_id": "a"}}], "fromMongos": False},
        **changes,
    }  # fmt: skip


def update(session: int = 1, seconds: float = 8.0, key: Any = 1, **changes: Any) -> dict[str, Any]:
    """An update inside the engine, of a driver that numbers its writes."""
    return {
        "type": "op", "opid": 500 + session, "op": "update", "ns": "app.orders", "lsid": lsid(session),
        "appName": "shop", "microsecs_running": int(seconds * 1e6), "locks": {"Global": "w"},
        "command": {"q": {"_id": key}, "multi": False}, "transaction": {"parameters": {"txnNumber": 1}},
        **changes,
    }  # fmt: skip


def waiting(session: int = 1, seconds: float = 5.0, verb: str = "update", **changes: Any) -> dict[str, Any]:
    """The same request sent again, which waits for its session and shows not what it is to write."""
    return {
        "type": "op", "opid": 700 + session, "op": "command", "ns": "app.$cmd", "lsid": lsid(session),
        "appName": "shop", "microsecs_running": int(seconds * 1e6), "locks": {},
        "command": {verb: "orders", "txnNumber": 1}, "waitingForLatch": {"captureName": "SessionCatalog::_mutex"},
        **changes,
    }  # fmt: skip


def insert(session: int = 1, seconds: float = 8.0, **changes: Any) -> dict[str, Any]:
    """An insert inside the engine: its documents are not shown."""
    command = {"insert": "orders", "txnNumber": 1}
    return update(session, seconds, op="insert", command=command, **changes)
