"""What change streams cost the router's process: CPU an event, memory, and how soon many of them are open.

Usage: python benchmarks/streams.py [--streams 1 8 32 128] [--rate 100] [--seconds 5] [--updates] [--wide]
One cluster of two shards. Writes go past the router, so that what it burns is for events; each stream is a client of
its own, in this process. CPU is user and system time of the router's process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bson.int64 import Int64

from clusters import local
from clusters.cluster import primary_of
from clusters.local import OwnCluster
from clusters.topology import sharded_cluster
from clusters.wire.connection import Connection

DATABASE, COLLECTION = "bench", "orders"
OPENING_AT_ONCE = 16
DELIVERY = 120.0
"""Seconds for what was written to arrive everywhere."""
CONNECT = 60.0


class Process:
    """The router's process as the kernel sees it."""

    def __init__(self, pid: int) -> None:
        self._directory = Path(f"/proc/{pid}")

    def cpu(self) -> float:
        fields = (self._directory / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def mebibytes(self) -> float:
        (line,) = [one for one in (self._directory / "status").read_text().splitlines() if one.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


class Stream:
    """One client with one change stream."""

    def __init__(self, connection: Connection, database: str, cursor: Mapping[str, Any]) -> None:
        self.connection = connection
        self._database, _dot, self._collection = cursor["ns"].partition(".")
        self._cursor_id = int(cursor["id"])
        self.delays: list[float] = []

    @classmethod
    async def open(cls, router: str, options: Mapping[str, Any], wide: bool) -> Stream:
        connection = await Connection.open(router, deadline=CONNECT)
        target: str | int = 1 if wide else COLLECTION
        command: dict[str, Any] = {"aggregate": target, "pipeline": [{"$changeStream": options}], "cursor": {}}
        reply = await connection.command(DATABASE, command)
        return cls(connection, DATABASE, reply["cursor"])

    async def read(self, last: int) -> int:
        """The events up to that of number `last`; how many they were."""
        seen = 0
        while True:
            more = {"getMore": Int64(self._cursor_id), "collection": self._collection, "maxTimeMS": 1000}
            batch = (await self.connection.command(self._database, more))["cursor"]["nextBatch"]
            now = time.time()
            for event in batch:
                seen += 1
                self.delays.append(now - event["fullDocument"]["at"])
                if event["fullDocument"]["number"] == last:
                    return seen

    async def close(self) -> None:
        kill = {"killCursors": self._collection, "cursors": [Int64(self._cursor_id)]}
        await self.connection.command(self._database, kill)
        self.connection.close()


async def shape(cluster: OwnCluster) -> dict[int, Connection]:
    """The collection on both shards; region -> a connection to the primary that has it."""
    async with cluster.client() as client:
        await client.admin.command("enableSharding", DATABASE, primaryShard="shard0")
        await client.admin.command("shardCollection", f"{DATABASE}.{COLLECTION}", key={"region": 1})
        await client.admin.command("moveRange", f"{DATABASE}.{COLLECTION}", min={"region": 0}, toShard="shard1")
        await client[DATABASE][COLLECTION].insert_many([{"_id": region, "region": region} for region in (-1, 0)])
    past = {}
    for region, shard in ((-1, "shard0"), (0, "shard1")):
        past[region] = await Connection.open((await primary_of(cluster, shard)).host, deadline=CONNECT)
    return past


async def write(past: Mapping[int, Connection], number: int, updates: bool) -> None:
    """One write, on either shard in turn."""
    region = -(number % 2)
    fields = {"number": number, "at": time.time(), "text": "x" * 200}
    document: dict[str, Any]
    if updates:
        document = {"update": COLLECTION, "updates": [{"q": {"_id": region, "region": region}, "u": {"$set": fields}}]}
    else:
        document = {"insert": COLLECTION, "documents": [{"_id": number, "region": region, **fields}]}
    await past[region].command(DATABASE, document)


async def measure(
    cluster: OwnCluster, past: Mapping[int, Connection], count: int, arguments: argparse.Namespace, first: int
) -> None:
    assert cluster.router is not None and cluster.router_process is not None
    assert cluster.router_process.process is not None
    router, process = cluster.router, Process(cluster.router_process.process.pid)
    options = {"fullDocument": "updateLookup"} if arguments.updates else {}
    begin, used, before = time.monotonic(), process.cpu(), process.mebibytes()
    streams: list[Stream] = []
    for start in range(0, count, OPENING_AT_ONCE):
        some = min(OPENING_AT_ONCE, count - start)
        streams += await asyncio.gather(*(Stream.open(router, options, arguments.wide) for _ in range(some)))
    print(
        f"{count:5d} streams opened in {time.monotonic() - begin:5.2f} s,"
        f" router CPU {(process.cpu() - used) / count * 1e3:.2f} ms each",
        flush=True,
    )
    total = int(arguments.rate * arguments.seconds)
    last = first + total - 1
    begin, used = time.monotonic(), process.cpu()
    async with asyncio.timeout(arguments.seconds + DELIVERY), asyncio.TaskGroup() as group:
        reading = [group.create_task(one.read(last)) for one in streams]
        for number in range(first, last + 1):
            await write(past, number, arguments.updates)
            await asyncio.sleep(max(0.0, begin + (number - first + 1) / arguments.rate - time.monotonic()))
        # What is last waits for the other shard's next promise: a write on each goes past it.
        for number in (last + 1, last + 2):
            await write(past, number, arguments.updates)
    passed, used = time.monotonic() - begin, process.cpu() - used
    delivered = sum(one.result() for one in reading)
    delays = [delay for one in streams for delay in one.delays]
    print(
        f"{count:5d} streams: {delivered} events of {count * total} in {passed:.1f} s,"
        f" {delivered / passed:.0f} a second, router CPU {used / delivered * 1e6:.0f} us an event"
        f" ({used / passed * 100:.0f} % of a core), p50 {statistics.median(delays) * 1e3:.0f} ms,"
        f" RSS {process.mebibytes():.0f} MiB ({(process.mebibytes() - before) * 1024 / count:.0f} KiB a stream)",
        flush=True,
    )
    for one in streams:
        await one.close()


async def run(arguments: argparse.Namespace) -> None:
    cluster = await local.bring_up(sharded_cluster(2, 1), f"bench-streams-{os.getpid()}")
    try:
        print(f"mongod {cluster.server.version}, router {cluster.server.router}, {os.cpu_count()} cores", flush=True)
        past = await shape(cluster)
        first = 1
        for count in arguments.streams:
            await measure(cluster, past, count, arguments, first)
            first += int(arguments.rate * arguments.seconds) + 2
        for one in past.values():
            one.close()
    finally:
        await cluster.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 32, 128], help="how many at once, in turn")
    parser.add_argument("--rate", type=float, default=100, help="writes a second, over both shards")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--updates", action="store_true", help="updates with updateLookup instead of inserts")
    parser.add_argument("--wide", action="store_true", help="on the database instead of the collection")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mongofault-bench-") as scratch:
        os.environ["MONGOFAULT_STATE"] = f"{scratch}/state"
        asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
