"""The straight way through the router: order, cancellation, back-pressure and errors are those of the long way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection
from clusters.wire.message import (
    EXHAUST_ALLOWED,
    HEADER,
    MORE_TO_COME,
    Message,
    decode,
    encode,
    encode_body,
    encode_document,
    encode_sequence,
)
from router_parts import DEADLINE, Orders, orders, router_host, to_router, until

pytestmark = pytest.mark.live

SLOW: Final = {"$where": "sleep(300) || true"}
MEGABYTE: Final = 1 << 20
PER_CLIENT: Final = 48 * 1024
"""Bytes of the router's memory for a client and its connection to the router host; a read buffer would be 64 KiB."""


class Wire:
    """A client that sends what no driver does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, database: str) -> None:
        self.reader, self.writer, self._database = reader, writer, database

    def framed(self, request_id: int, command: Mapping[str, Any], *, flags: int = 0, tail: bytes = b"") -> bytes:
        body = encode_document({**command, "$db": self._database})
        return encode_body(body, request_id=request_id, flags=flags, tail=tail)

    def send(self, request_id: int, command: Mapping[str, Any], *, flags: int = 0, tail: bytes = b"") -> None:
        self.writer.write(self.framed(request_id, command, flags=flags, tail=tail))

    async def reply(self) -> Message:
        async with asyncio.timeout(DEADLINE):
            head = await self.reader.readexactly(4)
            return Message(head + await self.reader.readexactly(int.from_bytes(head, "little") - 4))


@asynccontextmanager
async def wire(cluster: LocalCluster, collection: Orders) -> AsyncIterator[Wire]:
    assert cluster.router is not None
    host, _, port = cluster.router.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Wire(reader, writer, collection.database.name)
    finally:
        writer.close()


@pytest.fixture(scope="module")
async def filled(sharded: LocalCluster) -> AsyncIterator[Orders]:
    """Regions -5 to 4, five documents on each shard. Un-numbered writes, which are passed on."""
    async with orders(sharded, retryWrites=False) as collection:
        await collection.insert_many([{"_id": region, "region": region} for region in range(-5, 5)])
        yield collection


async def finds(collection: Orders) -> int:
    status = await collection.database.client.admin.command("serverStatus")
    total: int = status["opcounters"]["query"]
    return total


async def running(collection: Orders, name: str) -> list[Mapping[str, Any]]:
    """The router's own ops of that command on the collection."""
    stages: list[dict[str, Any]] = [{"$currentOp": {"localOps": True}}]
    ops = await (await collection.database.client.admin.aggregate(stages)).to_list()
    return [one for one in ops if one["ns"] == collection.full_name and name in one["command"]]


async def test_replies_come_in_the_order_of_the_requests(sharded: LocalCluster, filled: Orders) -> None:
    """Slow and fast, straight and not, in one packet."""
    update = encode_sequence("updates", [encode_document({"q": {"region": 1}, "u": {"$set": {"seen": 1}}})])
    async with wire(sharded, filled) as client:
        requests = [
            client.framed(1, {"find": "orders", "filter": {"region": -1, **SLOW}}),
            client.framed(2, {"ping": 1}),
            client.framed(3, {"find": "orders", "filter": {"region": 1}}),
            client.framed(4, {"update": "orders"}, tail=update),
            client.framed(5, {"find": "orders", "filter": {"region": 1}}),
            client.framed(6, {"count": "orders"}),
            client.framed(7, {"find": "orders", "filter": {}, "batchSize": 2}),
        ]
        client.writer.write(b"".join(requests))
        replies = [await client.reply() for _ in requests]
    assert [one.response_to for one in replies] == [1, 2, 3, 4, 5, 6, 7]
    assert all(one.document()["ok"] == 1 for one in replies)
    assert "seen" not in replies[2].document()["cursor"]["firstBatch"][0]
    assert replies[4].document()["cursor"]["firstBatch"][0]["seen"] == 1


async def test_a_find_that_runs_is_among_the_routers_own_ops_and_counted_once(
    sharded: LocalCluster, filled: Orders
) -> None:
    async with wire(sharded, filled) as client:
        before = await finds(filled)
        client.send(1, {"find": "orders", "filter": {"region": -1, **SLOW}, "comment": "seen"})

        async def seen() -> bool:
            return [one["command"]["comment"] for one in await running(filled, "find")] == ["seen"]

        await until(seen, "the find among the router's ops")
        assert (await client.reply()).document()["ok"] == 1
        assert await running(filled, "find") == []
        assert await finds(filled) == before + 1


async def test_a_read_ends_with_its_client(sharded: LocalCluster, filled: Orders) -> None:
    host = router_host(sharded)

    async def on_the_host() -> bool:
        async with host.client() as client:
            ops = await (await client.admin.aggregate([{"$currentOp": {}}])).to_list()
        return any(one.get("command", {}).get("comment") == "deserted" for one in ops)

    async def gone() -> bool:
        return not await on_the_host()

    async with wire(sharded, filled) as client:
        client.send(1, {"find": "orders", "filter": {"$where": "sleep(60000) || true"}, "comment": "deserted"})
        await until(on_the_host, "the find on the router host")
    await until(gone, "the end of the find")
    assert await running(filled, "find") == []
    assert await filled.find_one({"region": 2}) is not None


async def test_a_write_goes_on_without_its_client(sharded: LocalCluster, filled: Orders) -> None:
    update = {"q": {"region": -2, **SLOW}, "u": {"$set": {"left": True}}}
    async with wire(sharded, filled) as client:
        client.send(1, {"update": "orders"}, tail=encode_sequence("updates", [encode_document(update)]))

        async def begun() -> bool:
            return bool(await running(filled, "update"))

        await until(begun, "the update")

    async def written() -> bool:
        return await filled.find_one({"region": -2, "left": True}) is not None

    async def over() -> bool:
        return not await running(filled, "update")

    await until(written, "the update of a client that is gone")
    # It is to be seen before the majority has it, for which the router still waits.
    await until(over, "the end of the update")


async def test_a_slow_reader_gets_every_byte_and_holds_up_nobody_but_itself(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection, wire(sharded, collection) as client:
        await collection.insert_many([{"_id": n, "region": n, "text": chr(97 + n) * MEGABYTE} for n in range(12)])
        before = await finds(collection)
        for request_id in (1, 2):
            client.send(request_id, {"find": "orders", "filter": {}, "sort": {"_id": 1}})
        head = await asyncio.wait_for(client.reader.readexactly(16), DEADLINE)
        # The reply is on its way and fills every buffer: the next command does not begin before it is read.
        assert HEADER.unpack(head)[2] == 1
        assert await finds(collection) == before + 1
        rest = await asyncio.wait_for(client.reader.readexactly(HEADER.unpack(head)[0] - 16), DEADLINE)
        replies = [Message(head + rest), await client.reply()]
        assert [one.response_to for one in replies] == [1, 2]
        for reply in replies:
            batch = reply.document()["cursor"]["firstBatch"]
            assert [(one["_id"], one["text"]) for one in batch] == [(n, chr(97 + n) * MEGABYTE) for n in range(12)]


async def test_an_exhaust_flag_gets_one_reply_a_request(sharded: LocalCluster, filled: Orders) -> None:
    """As by a mongos, which streams no cursor."""
    async with wire(sharded, filled) as client:
        client.send(1, {"find": "orders", "filter": {}, "batchSize": 3}, flags=EXHAUST_ALLOWED)
        opened = await client.reply()
        identity = opened.document()["cursor"]["id"]
        client.send(2, {"getMore": identity, "collection": "orders", "batchSize": 3}, flags=EXHAUST_ALLOWED)
        client.send(3, {"ping": 1})
        more, ping = await client.reply(), await client.reply()
        client.send(4, {"killCursors": "orders", "cursors": [identity]})
        assert (await client.reply()).document()["cursorsKilled"] == [identity]
    assert [one.flags & MORE_TO_COME for one in (opened, more, ping)] == [0, 0, 0]
    assert (more.response_to, ping.response_to) == (2, 3)
    assert len(more.document()["cursor"]["nextBatch"]) == 3


async def test_a_write_that_asks_for_no_reply_gets_none_and_is_done_first(
    sharded: LocalCluster, filled: Orders
) -> None:
    documents = encode_sequence("documents", [encode_document({"_id": "quiet", "region": 100})])
    async with wire(sharded, filled) as client:
        client.send(1, {"insert": "orders", "writeConcern": {"w": 0}}, flags=MORE_TO_COME, tail=documents)
        client.send(2, {"find": "orders", "filter": {"region": 100}})
        reply = await client.reply()
    assert reply.response_to == 2
    assert [one["_id"] for one in reply.document()["cursor"]["firstBatch"]] == ["quiet"]
    await filled.delete_one({"_id": "quiet", "region": 100})


@pytest.mark.parametrize("command", ["find", "insert", "update"])
async def test_a_body_that_is_no_bson_is_an_error_and_the_connection_goes_on(
    sharded: LocalCluster, command: str
) -> None:
    connection = await to_router(sharded)
    raw = bytearray(encode({command: "orders", "filter": {"a": "b"}, "$db": "app"}, request_id=1))
    at = raw.index(b"filter\x00") + len(b"filter\x00")
    for size in (4, 200, 2**31 - 1):
        raw[at : at + 4] = size.to_bytes(4, "little")
        reply = (await connection.request(bytes(raw), deadline=DEADLINE)).document()
        assert (reply["ok"], reply["code"] in (9, 20)) == (0, True), reply
    assert (await connection.command("admin", {"ping": 1}))["ok"] == 1
    connection.close()


async def test_a_field_nobody_knows_is_for_the_server_to_refuse(sharded: LocalCluster, filled: Orders) -> None:
    connection = await to_router(sharded)
    with pytest.raises(CommandFailed) as caught:
        await connection.command(filled.database.name, {"find": "orders", "filler": {}})
    assert caught.value.code == 40415
    with pytest.raises(CommandFailed) as caught:
        await connection.command(filled.database.name, {"find": "orders", "filter": {"$nonsense": 1}})
    assert caught.value.code == 2
    connection.close()


async def test_a_connection_to_the_router_host_that_breaks_fails_the_command_on_it_alone(
    sharded: LocalCluster, filled: Orders
) -> None:
    connections = [await to_router(sharded) for _ in range(3)]
    name, find = filled.database.name, {"find": "orders", "filter": {"region": 1}}
    async with router_host(sharded).client() as host:
        point = {
            "configureFailPoint": "failCommand",
            "data": {"failCommands": ["clusterFind"], "closeConnection": True},
        }
        before = (await host.admin.command({**point, "mode": {"times": 1}}))["count"]
        ended = await asyncio.gather(*(one.command(name, find) for one in connections), return_exceptions=True)
        # Commands that arrive together may all be the one time: the server counts down after it has let them in.
        closed = (await host.admin.command({**point, "mode": "off"}))["count"] - before
    broken = [one for one in ended if isinstance(one, BaseException)]
    assert closed >= 1
    assert [(type(one), getattr(one, "code", 0)) for one in broken] == [(CommandFailed, 6)] * closed
    for connection in connections:
        assert (await connection.command(name, find))["ok"] == 1
        connection.close()


async def test_hundreds_of_clients_cost_the_router_little_memory_each(sharded: LocalCluster, filled: Orders) -> None:
    assert sharded.router_process is not None and sharded.router_process.process is not None
    status = Path(f"/proc/{sharded.router_process.process.pid}/status")

    def resident() -> int:
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmRSS" in line)

    before = resident()
    many: list[Connection] = await asyncio.gather(*(to_router(sharded) for _ in range(400)))
    find = encode({"find": "orders", "filter": {"region": 1}, "$db": filled.database.name}, request_id=1)
    replies = await asyncio.gather(*(one.request(find, deadline=DEADLINE) for one in many))
    assert all(len(decode(one.body)["cursor"]["firstBatch"]) == 1 for one in replies)
    assert resident() - before < 400 * PER_CLIENT
    for one in many:
        one.close()
