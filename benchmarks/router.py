"""What the stand-in router costs: a find through it against one past it, its CPU per find and per change event.

Usage: python benchmarks/router.py [--finds 3000] [--streams 8] [--rate 100] [--seconds 10]
All figures of one run are of one cluster; the finds through and past the router take turns, so load hits both alike.
CPU is user and system time of the router's process (/proc/PID/stat), what it burns at rest taken off. On a busy
machine it grows with the load; so a bare asyncio relay, which looks at no byte, is measured beside it as the floor.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pymongo import AsyncMongoClient
from pymongo.asynchronous.change_stream import AsyncCollectionChangeStream
from pymongo.asynchronous.collection import AsyncCollection

from clusters import local, ports
from clusters.topology import sharded_cluster

Orders = AsyncCollection[dict[str, Any]]

CPU_GOALS = {"find": 120e-6, "event": 250e-6}
"""Seconds of router CPU."""
REST = 3.0
TURN = 100
"""Finds in a row on one path before the other has its turn."""
DELIVERY = 30.0


class Cpu:
    """CPU seconds that a process used from here on, less its share at rest."""

    def __init__(self, pid: int, at_rest: float = 0.0) -> None:
        self._pid, self._at_rest = pid, at_rest
        self._since, self._used = time.monotonic(), self._read()

    def seconds(self) -> float:
        return self._read() - self._used - self._at_rest * (time.monotonic() - self._since)

    def _read(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Relay(asyncio.BufferedProtocol):
    """Bytes from one side to the other; `to` is the server, for the side that a client dialled."""

    def __init__(self, to: str, other: Relay | None = None) -> None:
        self._to, self._other = to, other
        self._room = memoryview(bytearray(1 << 16))
        self._early = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._other is None:
            self._dialling = asyncio.create_task(self._dial())

    async def _dial(self) -> None:
        host, _, port = self._to.rpartition(":")
        other = Relay(self._to, self)
        await asyncio.get_running_loop().create_connection(lambda: other, host, int(port))
        self._other = other
        other.send(self._early)

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._room[:nbytes])
        if self._other is None:
            self._early += data
        else:
            self._other.send(data)


async def relay(port: int, to: str) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Relay(to), "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


async def orders(client: AsyncMongoClient[dict[str, Any]]) -> Orders:
    """`bench.orders`: regions below 0 on shard0, from 0 on shard1, a document each."""
    await client.admin.command("enableSharding", "bench", primaryShard="shard0")
    await client.admin.command("shardCollection", "bench.orders", key={"region": 1})
    await client.admin.command("moveRange", "bench.orders", min={"region": 0}, toShard="shard1")
    collection = client.bench.orders
    await collection.insert_many([{"_id": region, "region": region, "text": "x" * 200} for region in (-1, 0)])
    return collection


async def find_seconds(collection: Orders, times: int) -> list[float]:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        assert await collection.find_one({"region": -1}) is not None
        taken.append(time.perf_counter() - start)
    return taken


async def finds(pid: int, at_rest: float, through: Orders, past: Orders, shard: str, times: int) -> tuple[float, float]:
    """Shows the medians; gives the CPU seconds a find of the router and of a bare relay to the shard."""
    routed: list[float] = []
    direct: list[float] = []
    used = floor = 0.0
    (port,) = ports.choose(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--relay", str(port), shard), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None and await process.stdout.readline()
        async with AsyncMongoClient[dict[str, Any]](f"mongodb://127.0.0.1:{port}/?directConnection=true") as client:
            relayed = client.bench.orders
            for path in (through, past, relayed):
                await find_seconds(path, TURN)
            while len(routed) < times:
                cpu = Cpu(pid, at_rest)
                routed += await find_seconds(through, TURN)
                used += cpu.seconds()
                direct += await find_seconds(past, TURN)
                cpu = Cpu(process.pid)
                await find_seconds(relayed, TURN)
                floor += cpu.seconds()
    finally:
        process.kill()
        await process.wait()
    slow, fast = statistics.median(routed), statistics.median(direct)
    print(f"find past the router    p50 {fast * 1e6:6.0f} us", flush=True)
    print(f"find through the router p50 {slow * 1e6:6.0f} us, {slow / fast:.2f} times as long", flush=True)
    return used / len(routed), floor / len(routed)


async def consume(stream: AsyncCollectionChangeStream[dict[str, Any]], last: int) -> int:
    """The events up to the insert of `last`."""
    seen = 0
    async for event in stream:
        seen += 1
        if event["documentKey"]["_id"] == last:
            return seen
    raise AssertionError("the stream ended by itself")


async def events(
    pid: int, at_rest: float, through: Orders, past: Mapping[int, Orders], streams: int, rate: int, seconds: int
) -> float:
    """Writes past the router, to both shards in turn, so that what it burns is for events; its CPU seconds an event."""
    opened = [await through.watch() for _ in range(streams)]
    try:
        total = rate * seconds
        cpu = Cpu(pid, at_rest)
        async with asyncio.timeout(seconds + DELIVERY), asyncio.TaskGroup() as group:
            reading = [group.create_task(consume(one, total)) for one in opened]
            begin = time.monotonic()
            for number in range(1, total + 1):
                region = -(number % 2)
                await past[region].insert_one({"_id": number, "region": region, "text": "x" * 200})
                await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
        used = cpu.seconds()
        delivered = sum(one.result() for one in reading)
        print(f"{streams} streams, {rate} writes/s: {delivered} events of {streams * total} delivered", flush=True)
        return used / delivered
    finally:
        for one in opened:
            await one.close()


async def measure(arguments: argparse.Namespace) -> None:
    cluster = await local.bring_up(sharded_cluster(2, 1), f"bench-router-{os.getpid()}")
    try:
        assert cluster.router_process is not None and cluster.router_process.process is not None
        pid = cluster.router_process.process.pid
        print(f"mongod {cluster.server.version}, router {cluster.server.router}, {os.cpu_count()} cores", flush=True)
        shards = [one for one in cluster.members.values() if one.spec.set_name in ("shard0", "shard1")]
        async with cluster.client() as client, shards[0].client() as below, shards[1].client() as above:
            through = await orders(client)
            past: dict[int, Orders] = {-1: below.bench.orders, 0: above.bench.orders}
            resting = Cpu(pid)
            await asyncio.sleep(REST)
            at_rest = resting.seconds() / REST
            spent = {}
            spent["find"], floor = await finds(pid, at_rest, through, past[-1], shards[0].host, arguments.finds)
            spent["event"] = await events(
                pid, at_rest, through, past, arguments.streams, arguments.rate, arguments.seconds
            )
        print(f"bare relay, CPU per find {floor * 1e6:4.0f} us", flush=True)
        for what, seconds in spent.items():
            goal = CPU_GOALS[what]
            share = f"{seconds / goal:.2f} of the goal of {goal * 1e6:.0f} us, {seconds / floor:.2f} relays"
            print(f"router CPU per {what:<6} {seconds * 1e6:6.0f} us, {share}", flush=True)
    finally:
        await cluster.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finds", type=int, default=3000)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--rate", type=int, default=100, help="writes a second, over both shards")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--relay", nargs=2, metavar=("PORT", "HOST:PORT"), help="be the bare relay (used by the run)")
    arguments = parser.parse_args()
    if arguments.relay:
        asyncio.run(relay(int(arguments.relay[0]), arguments.relay[1]))
        return
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mongofault-bench-") as scratch:
        os.environ["MONGOFAULT_STATE"] = f"{scratch}/state"
        asyncio.run(measure(arguments))


if __name__ == "__main__":
    main()
