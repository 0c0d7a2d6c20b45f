"""hello as drivers' monitors use it: awaited, streamed, in a server's words where it is malformed."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId
from pymongo import AsyncMongoClient
from pymongo.monitoring import (
    ServerHeartbeatFailedEvent,
    ServerHeartbeatListener,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
)

from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection
from clusters.wire.message import EXHAUST_ALLOWED, HEADER, MORE_TO_COME, OP_QUERY, Message, encode, encode_document
from router_parts import DEADLINE, to_router

pytestmark = pytest.mark.live

UNKNOWN = {"processId": ObjectId(), "counter": Int64(0)}


async def test_a_hello_waits_only_where_it_knows_the_version(sharded: LocalCluster) -> None:
    connection = await to_router(sharded)
    version = connection.hello["topologyVersion"]
    began = time.monotonic()
    reply = await connection.command("admin", {"hello": 1, "topologyVersion": UNKNOWN, "maxAwaitTimeMS": 20_000})
    assert (time.monotonic() - began < 10, reply["topologyVersion"]) == (True, version)
    began = time.monotonic()
    reply = await connection.command("admin", {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 200})
    assert (time.monotonic() - began >= 0.2, reply["topologyVersion"]) == (True, version)
    connection.close()


async def test_a_hello_is_streamed_to_those_who_take_it(sharded: LocalCluster) -> None:
    """Raw: a connection of the project's own takes one reply for each request."""
    first = await to_router(sharded)
    version = first.hello["topologyVersion"]
    first.close()
    assert sharded.router is not None
    reader, writer = await asyncio.open_connection(*sharded.router.split(":"))
    try:
        hello = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 50, "$db": "admin"}
        writer.write(encode(hello, request_id=77, flags=EXHAUST_ALLOWED))
        answers = 77
        async with asyncio.timeout(DEADLINE):
            for _ in range(3):
                head = await reader.readexactly(16)
                reply = Message(head + await reader.readexactly(HEADER.unpack(head)[0] - 16))
                assert reply.flags & MORE_TO_COME
                assert (reply.response_to, reply.document()["msg"]) == (answers, "isdbgrid")
                answers = reply.request_id
    finally:
        writer.close()


class _Heartbeats(ServerHeartbeatListener):
    def __init__(self) -> None:
        self.awaited = asyncio.Event()
        self.failures: list[Exception] = []

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        pass

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        if event.awaited:
            self.awaited.set()

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        self.failures.append(event.reply)


async def test_the_monitor_of_a_driver_streams(sharded: LocalCluster) -> None:
    beats = _Heartbeats()
    async with AsyncMongoClient[dict[str, Any]](
        sharded.uri, heartbeatFrequencyMS=500, serverMonitoringMode="stream", event_listeners=[beats]
    ) as client:
        await client.admin.command("ping")
        async with asyncio.timeout(DEADLINE):
            await beats.awaited.wait()
        assert beats.failures == []


@pytest.mark.parametrize(
    "fields",
    [
        {"topologyVersion": UNKNOWN},
        {"maxAwaitTimeMS": 5},
        {"topologyVersion": {"processId": ObjectId(), "counter": Int64(-1)}, "maxAwaitTimeMS": 5},
        {"topologyVersion": UNKNOWN, "maxAwaitTimeMS": -5},
    ],
)
async def test_a_malformed_hello_is_refused_as_by_a_server(
    sharded: LocalCluster, replica_set: LocalCluster, fields: dict[str, Any]
) -> None:
    replies = []
    for host in (sharded.router, next(iter(replica_set.members.values())).host):
        assert host is not None
        connection = await Connection.open(host, deadline=DEADLINE)
        with pytest.raises(CommandFailed) as caught:
            await connection.command("admin", {"hello": 1, **fields})
        replies.append({one: caught.value.reply[one] for one in ("ok", "code", "codeName", "errmsg")})
        connection.close()
    assert replies[0] == replies[1]


async def test_options_of_other_deployments_are_left_unanswered(sharded: LocalCluster) -> None:
    """As by a mongos without users, without compressors and without a load balancer's port."""
    connection = await to_router(sharded)
    plain = await connection.command("admin", {"hello": 1})
    offers = {"compression": ["zlib"], "saslSupportedMechs": "admin.u", "loadBalanced": True,
              "speculativeAuthenticate": {"saslStart": 1, "mechanism": "SCRAM-SHA-256"}}  # fmt: skip
    assert set(await connection.command("admin", {"hello": 1, **offers})) == set(plain)
    connection.close()


async def test_the_legacy_hello_of_a_first_connection_is_answered(sharded: LocalCluster) -> None:
    assert sharded.router is not None
    reader, writer = await asyncio.open_connection(*sharded.router.split(":"))
    try:
        body = (
            struct.pack("<i", 0)
            + b"admin.$cmd\x00"
            + struct.pack("<ii", 0, -1)
            + encode_document({"isMaster": 1, "helloOk": True})
        )
        writer.write(HEADER.pack(16 + len(body), 3, 0, OP_QUERY) + body)
        async with asyncio.timeout(DEADLINE):
            head = await reader.readexactly(16)
            reply = Message(head + await reader.readexactly(HEADER.unpack(head)[0] - 16))
        document = reply.document()
        assert (reply.response_to, document["ismaster"], document["helloOk"]) == (3, True, True)
        assert "topologyVersion" in document
    finally:
        writer.close()
