"""Many clients of one router, slow ones, vanishing ones, more than it has files for; and its end with all that open."""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters import ports
from clusters.cluster import data_members
from clusters.local import LocalCluster
from clusters.router.router import CLOSE_DEADLINE
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost
from clusters.wire.message import HEADER, encode, next_request_id
from router_parts import Orders, orders, router_host, until

pytestmark = pytest.mark.live

CLIENTS = 500
DEADLINE = 120.0
"""Seconds for what many clients do at once on a burdened machine."""
KIB_A_CONNECTION = 64


@dataclass
class Beside:
    """A router process of the test's own, beside the cluster's, and connections to it."""

    process: asyncio.subprocess.Process
    address: str
    log: Path
    connections: list[Connection] = field(default_factory=list)

    async def connect(self) -> Connection:
        connection = await Connection.open(self.address, deadline=DEADLINE)
        self.connections.append(connection)
        return connection

    async def status(self) -> Mapping[str, Any]:
        """Asked on a connection that it closes again; itself not counted."""
        connection = await Connection.open(self.address, deadline=DEADLINE)
        try:
            found = await connection.command("admin", {"mongofaultRouterStatus": 1}, deadline=DEADLINE)
        finally:
            connection.close()
        return {**found, "clients": found["clients"] - 1}

    def rss(self) -> int:
        """KiB."""
        fields = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(fields.split("VmRSS:")[1].split()[0])

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def warnings(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if '"level": "info"' not in line]


@asynccontextmanager
async def router_beside(cluster: LocalCluster, path: Path, files: int | None = None) -> AsyncIterator[Beside]:
    """`files` is how many it may open (`ulimit -n`)."""
    assert cluster.router_process is not None
    (port,) = ports.choose(1)
    command = list(cluster.router_process.command)
    command[command.index("--listen") + 1] = f"127.0.0.1:{port}"
    limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command] if files else command
    log = path / "router.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *limited, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    beside = Beside(process, f"127.0.0.1:{port}", log)
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"ready\n"
        yield beside
    finally:
        for connection in beside.connections:
            connection.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


def target(collection: Orders) -> tuple[str, str]:
    return collection.database.name, collection.name


async def test_what_the_router_connects_with_bears_its_name(sharded: LocalCluster) -> None:
    """A network fault can be aimed at it, or spare it."""
    async with sharded.client() as client:
        await client["router_names"].things.find_one()
    async with data_members(sharded)[0].client() as client:
        idle = [{"$currentOp": {"allUsers": True, "idleConnections": True}}]
        found = {one.get("appName") async for one in await client.admin.aggregate(idle)}
    assert {"mongofault router", "mongofault router monitor"} <= found


@pytest.mark.slow
async def test_five_hundred_clients_at_once_each_find_and_insert_in_bounded_memory(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with orders(sharded) as collection, router_beside(sharded, tmp_path) as router:
        database, name = target(collection)

        async def work(number: int, connection: Connection) -> None:
            region = number % 2 * 2 - 1
            await connection.command(
                database, {"insert": name, "documents": [{"_id": number, "region": region}]}, deadline=DEADLINE
            )
            find = {"find": name, "filter": {"_id": number, "region": region}}
            found = await connection.command(database, find, deadline=DEADLINE)
            assert [one["_id"] for one in found["cursor"]["firstBatch"]] == [number]

        await work(-1, await router.connect())
        before = router.rss()
        clients = await asyncio.gather(*(router.connect() for _ in range(CLIENTS)))
        idle = router.rss()
        await asyncio.gather(*(work(number, one) for number, one in enumerate(clients)))
        busy = router.rss()
        assert (await router.status())["clients"] == CLIENTS + 1
        print(f"\nKiB a connection: {(idle - before) / CLIENTS:.0f} idle, {(busy - before) / CLIENTS:.0f} after use")
        assert (busy - before) / CLIENTS < KIB_A_CONNECTION
        for one in clients:
            one.close()
        await until(lambda: no_clients(router, 1), "the router has let the clients go")
        assert await collection.count_documents({}) == CLIENTS + 1
        assert router.warnings() == []


async def no_clients(router: Beside, but: int = 0) -> bool:
    try:
        return bool((await router.status())["clients"] == but)
    except ConnectionLost:  # turned away: there are too many of them still
        return False


SLOW = "function() { sleep(100); return true; }"


async def in_flight(cluster: LocalCluster, comment: str) -> list[Mapping[str, Any]]:
    """Operations and cursors with this comment, on every member that holds data and on the router host."""
    found: list[Mapping[str, Any]] = []
    for member in [*data_members(cluster), router_host(cluster)]:
        async with cluster.members[member.name].client() as client:
            pipeline: list[dict[str, Any]] = [
                {"$currentOp": {"allUsers": True, "idleCursors": True}},
                {"$match": {"$or": [{"command.comment": comment}, {"cursor.originatingCommand.comment": comment}]}},
            ]
            found += await (await client.admin.aggregate(pipeline)).to_list()
    return found


async def test_clients_that_vanish_in_the_middle_of_a_request_leave_nothing_behind(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with orders(sharded) as collection, router_beside(sharded, tmp_path) as router:
        database, name = target(collection)
        await collection.insert_many([{"region": n % 2 * 2 - 1} for n in range(400)])
        slow = {"find": name, "filter": {"$where": SLOW}, "comment": name}
        changes = {"aggregate": name, "pipeline": [{"$changeStream": {}}], "cursor": {}, "comment": name}
        connections = [await router.connect() for _ in range(9)]
        requests = []
        for number, one in enumerate(connections):
            command: dict[str, Any] = slow
            if number % 3 == 0:
                cursor = (await one.command(database, changes, deadline=DEADLINE))["cursor"]
                command = {"getMore": cursor["id"], "collection": name, "maxTimeMS": 600_000}
            requests.append(asyncio.create_task(one.command(database, command)))

        async def running() -> bool:
            return len([one for one in await in_flight(sharded, name) if one["type"] == "op"]) >= len(connections)

        await until(running, "all of it runs")
        for one in connections:
            one.close()
        await asyncio.gather(*requests, return_exceptions=True)
        await until(lambda: no_clients(router), "the router has let the clients go")

        async def quiet() -> bool:
            return await in_flight(sharded, name) == []

        await until(quiet, "no operation or cursor of theirs is left on a member")
        status = await router.status()
        assert (status["cursors"], status["streams"]) == (0, [])
        assert router.warnings() == []


async def test_a_client_that_does_not_read_its_replies_stalls_nobody_else(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with orders(sharded) as collection, router_beside(sharded, tmp_path) as router:
        database, name = target(collection)
        await collection.insert_many([{"_id": n, "region": 1, "text": "x" * 1_000_000} for n in range(12)])
        address, _, port = router.address.rpartition(":")
        _reader, writer = await asyncio.open_connection(address, int(port), limit=1024)
        before = router.rss()
        for _ in range(20):  # 240 MB of replies that nobody takes
            writer.write(encode({"find": name, "filter": {}, "$db": database}, request_id=next_request_id()))
        other = await router.connect()
        for n in range(50):
            found = await other.command(database, {"find": name, "filter": {"_id": n % 12}, "limit": 1}, deadline=30)
            assert len(found["cursor"]["firstBatch"]) == 1
        assert router.rss() - before < 100_000, "one reply at a time waits for a client that does not read"
        writer.transport.abort()
        await until(lambda: no_clients(router, 1), "the router has let the slow client go")


async def test_a_client_that_sends_on_without_reading_is_read_no_further_and_gets_every_reply_in_order(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with router_beside(sharded, tmp_path) as router:
        address, _, port = router.address.rpartition(":")
        before = router.rss()
        numbers = [next_request_id() for _ in range(1000)]
        sent: list[int] = []
        with socket.create_connection((address, int(port))) as client:
            sending = asyncio.create_task(asyncio.to_thread(pipelined, client, numbers, sent))
            seen = -1
            while seen != len(sent):
                seen = len(sent)
                await asyncio.sleep(2)
            assert seen < len(numbers), "the router took 50 MB of requests whose replies nobody reads"
            assert router.rss() - before < 30_000
            for number in numbers:
                assert HEADER.unpack_from(await asyncio.to_thread(received, client))[2] == number
            await sending
        await until(lambda: no_clients(router), "the router has let the client go")


def pipelined(client: socket.socket, numbers: Sequence[int], sent: list[int]) -> None:
    """Requests of 50 KB whose replies are as long."""
    for number in numbers:
        client.sendall(encode({"echo": 1, "text": "x" * 50_000, "$db": "admin"}, request_id=number))
        sent.append(number)


def received(client: socket.socket) -> bytes:
    (length,) = struct.unpack("<i", client.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))
    return client.recv(length, socket.MSG_WAITALL)


async def test_with_more_clients_than_it_has_files_for_it_says_so_once_and_serves_those_it_has(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with orders(sharded) as collection, router_beside(sharded, tmp_path, files=250) as router:
        database, name = target(collection)
        first = [await router.connect() for _ in range(20)]
        for round_ in range(2):
            outcome = await asyncio.gather(*(router.connect() for _ in range(300)), return_exceptions=True)
            refused = [one for one in outcome if isinstance(one, ConnectionLost)]
            assert 100 <= len(refused) < 300
            assert len(refused) + sum(isinstance(one, Connection) for one in outcome) == 300
            for number, one in enumerate(first):
                found = await one.command(database, {"find": name, "filter": {"_id": number}}, deadline=DEADLINE)
                assert found["ok"] == 1
            for one in router.connections[20:]:
                one.close()
            del router.connections[20:]
            await until(lambda: no_clients(router, 20), "the router has let the clients go")
            assert len(router.warnings()) == round_ + 1, router.warnings()
        assert "more clients than 200" in router.warnings()[0]
        assert "ulimit -n" in router.warnings()[0]


async def test_it_ends_in_time_with_clients_streams_and_a_request_to_a_frozen_member_open(
    sharded: LocalCluster, tmp_path: Path
) -> None:
    async with orders(sharded) as collection, router_beside(sharded, tmp_path) as router:
        database, name = target(collection)
        changes = {"aggregate": name, "pipeline": [{"$changeStream": {}}], "cursor": {}}
        reading = {"$readPreference": {"mode": "secondary"}}
        connections = [await router.connect() for _ in range(100)]
        requests = []
        for one in connections[:40]:
            cursor = (await one.command(database, {**changes, **reading}, deadline=DEADLINE))["cursor"]
            more = {"getMore": cursor["id"], "collection": name, "maxTimeMS": 600_000}
            requests.append(asyncio.create_task(one.command(database, more)))

        async def streaming() -> bool:
            return len((await router.status())["streams"]) >= 40

        await until(streaming, "the streams wait")
        frozen = [one for one in data_members(sharded) if one.name in ("shard0-1", "shard0-2")]
        for member in frozen:
            member.freeze()
        try:
            began = time.monotonic()
            router.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(router.process.wait(), 30) == 0
            assert time.monotonic() - began < CLOSE_DEADLINE + 5
        finally:
            for member in frozen:
                member.thaw()
        outcome = await asyncio.gather(*requests, return_exceptions=True)
        assert {type(one) for one in outcome} <= {ConnectionLost, CommandFailed}
        assert "Traceback" not in router.log.read_text()
