"""What the stand-in router adds to an operation: through it, past it to the `cluster*` commands, straight to the shard.

Usage: python benchmarks/router.py [--rounds 40] [--clients 8]
Raw connections without a driver; all figures of one run are of one cluster. The paths take short turns, so that load
hits all alike; ratios are medians of the rounds' ratios. `relay` is a bare asyncio relay, which looks at no byte, in
front of the `cluster*` commands: the floor for any router in this language. CPU is user and system time of the router's
process (/proc/PID/stat). Where uvloop is installed, a second router runs on it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import AsyncMongoClient

from clusters import commandline, local, ports
from clusters.topology import sharded_cluster
from clusters.wire.message import decode, encode_body, encode_document, encode_sequence

ADDED_GOAL: Final = 0.15
"""Milliseconds the router may add to `cluster*` at the median of find, one client."""
THROUGHPUT_GOAL: Final = 0.7
"""Of the finds a second of `cluster*`."""
TURN: Final = 100
"""Operations in a row on one path, over all its clients, before the next path has its turn."""

Document = dict[str, Any]


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


_transactions = itertools.count(1)


def _framed(body: Mapping[str, Any], field_name: str, statement: Document) -> bytes:
    tail = encode_sequence(field_name, [encode_document(statement)])
    return encode_body(encode_document({**body, "$db": "bench"}), request_id=1, tail=tail)


def find(name: str, lsid: Document) -> bytes:
    body = {name: "orders", "filter": {"region": -1}, "limit": 1, "singleBatch": True, "lsid": lsid, "$db": "bench"}
    return encode_body(encode_document(body), request_id=1)


def insert(name: str, lsid: Document, **numbered: Int64) -> bytes:
    document = {"_id": Binary(uuid.uuid4().bytes, 4), "region": -2, "text": "x" * 200}
    body = {name: "orders", "ordered": True, "lsid": lsid, "writeConcern": {"w": 1}, **numbered}
    return _framed(body, "documents", document)


def update(name: str, lsid: Document, **numbered: Int64) -> bytes:
    body = {name: "orders", "ordered": True, "lsid": lsid, "writeConcern": {"w": 1}, **numbered}
    return _framed(body, "updates", {"q": {"region": -1}, "u": {"$inc": {"n": 1}}})


def numbered(make: Callable[..., bytes]) -> Callable[[str, Document], bytes]:
    """The same as drivers send it by default, as a retryable write."""
    return lambda name, lsid: make(name, lsid, txnNumber=Int64(next(_transactions)))


OPERATIONS: Final[dict[str, tuple[str, str, Callable[[str, Document], bytes]]]] = {
    "find": ("find", "clusterFind", find),
    "insert": ("insert", "clusterInsert", insert),
    "update": ("update", "clusterUpdate", update),
    "retryable insert": ("insert", "", numbered(insert)),
    "retryable update": ("update", "", numbered(update)),
}
"""What is measured: the command, its `cluster*` form ("" where that would abort the server), the message."""


@dataclass(frozen=True)
class Way:
    """A way to the data: an address, and whether it speaks `cluster*`. `pid` of the process between, if it is ours."""

    name: str
    address: str
    cluster_form: bool = False
    pid: int = 0


class Lanes:
    """Several clients of one way, each with one operation at a time, on one selector: it takes little CPU itself."""

    def __init__(self, way: Way, clients: int) -> None:
        self.way = way
        self._selector = selectors.DefaultSelector()
        self._lanes: list[tuple[socket.socket, Document]] = []
        host, _, port = way.address.rpartition(":")
        for _ in range(clients):
            connection = socket.create_connection((host, int(port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lanes.append((connection, {"id": Binary(uuid.uuid4().bytes, 4)}))
            self._selector.register(connection, selectors.EVENT_READ, self._lanes[-1])

    def turn(self, name: str, make: Callable[[str, Document], bytes], times: int) -> list[float]:
        """The seconds each operation took. Raises AssertionError on a reply that is none of success."""
        taken: list[float] = []
        begun = {}
        pieces: dict[socket.socket, bytes] = {}
        left = times
        for connection, lsid in self._lanes[:times]:
            raw = make(name, lsid)
            begun[connection] = time.perf_counter()
            connection.sendall(raw)
            left -= 1
        while begun:
            for key, _events in self._selector.select():
                connection, lsid = key.data
                reply = pieces.pop(connection, b"") + connection.recv(1 << 18)
                now = time.perf_counter()
                assert reply, f"{self.way.name} closed a connection"
                if len(reply) < int.from_bytes(reply[:4], "little"):
                    pieces[connection] = reply
                    continue
                if not taken:
                    document = decode(reply[21:])
                    assert document["ok"] == 1 and not document.get("writeErrors"), document
                taken.append(now - begun.pop(connection))
                if left:
                    raw = make(name, lsid)
                    begun[connection] = time.perf_counter()
                    connection.sendall(raw)
                    left -= 1
        return taken

    def close(self) -> None:
        self._selector.close()
        for connection, _lsid in self._lanes:
            connection.close()


@dataclass
class Figures:
    """Of one operation on one way: seconds of each, operations a second of each turn, CPU seconds of the process."""

    taken: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.taken)


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 read twice a turn
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(operation: str, ways: list[Way], clients: int, rounds: int) -> dict[str, Figures]:
    """Rounds of one turn for each way; the first round only warms up."""
    plain, cluster, make = OPERATIONS[operation]
    lanes = [Lanes(way, clients) for way in ways if cluster or not way.cluster_form]
    figures = {one.way.name: Figures() for one in lanes}
    try:
        for number in range(rounds + 1):
            for one in lanes[number % len(lanes) :] + lanes[: number % len(lanes)]:
                way = one.way
                before, began = cpu_seconds(way.pid) if way.pid else 0.0, time.perf_counter()
                taken = one.turn(cluster if way.cluster_form else plain, make, TURN)
                elapsed = time.perf_counter() - began
                if number:
                    found = figures[way.name]
                    found.taken += taken
                    found.rates.append(len(taken) / elapsed)
                    found.cpu += cpu_seconds(way.pid) - before if way.pid else 0.0
    finally:
        for one in lanes:
            one.close()
    return figures


def show(operation: str, clients: int, figures: Mapping[str, Figures]) -> tuple[float, float]:
    """Prints a line for each way; gives what the router adds to `cluster*` (ms) and its share of the throughput."""
    added, share = float("nan"), float("nan")
    floor = figures.get("cluster*")
    for name, found in figures.items():
        line = f"{operation:<17}{clients:>2}  {name:<14} p50 {found.median * 1e3:6.3f} ms"
        line += f" {statistics.median(found.rates):7.0f}/s"
        if floor is not None and name not in ("direct", "cluster*"):
            more = (found.median - floor.median) * 1e3
            part = statistics.median(mine / its for mine, its in zip(found.rates, floor.rates, strict=True))
            line += f"  {more:+.3f} ms, {part:.2f} of cluster*"
            if name == "router":
                added, share = more, part
        if found.cpu:
            line += f"  CPU {found.cpu / len(found.taken) * 1e6:4.0f} us"
        print(line, flush=True)
    return added, share


async def orders(client: AsyncMongoClient[Document]) -> None:
    """`bench.orders`: regions below 0 on shard0, from 0 on shard1."""
    await client.admin.command("enableSharding", "bench", primaryShard="shard0")
    await client.admin.command("shardCollection", "bench.orders", key={"region": 1})
    await client.admin.command("moveRange", "bench.orders", min={"region": 0}, toShard="shard1")
    await client.bench.orders.insert_many([{"_id": region, "region": region, "text": "x" * 200} for region in (-1, 0)])


def beside(command: list[str]) -> subprocess.Popen[bytes]:
    """A process that listens once it has said so."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


async def run(arguments: argparse.Namespace) -> None:
    cluster = await local.bring_up(sharded_cluster(2, 1), f"bench-router-{os.getpid()}")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        assert cluster.router is not None
        assert cluster.router_process is not None and cluster.router_process.process is not None
        print(f"mongod {cluster.server.version}, router {cluster.server.router}, {os.cpu_count()} cores", flush=True)
        async with cluster.client() as client:
            await orders(client)
            status = await client.admin.command("mongofaultRouterStatus")
        shard = next(one for one in cluster.members.values() if one.spec.set_name == "shard0")
        host = status["routerHost"]
        ways = [
            Way("direct", shard.host),
            Way("cluster*", host, cluster_form=True),
            Way("router", cluster.router, pid=cluster.router_process.process.pid),
        ]
        relay_port, other_port = ports.choose(2)
        processes.append(beside([sys.executable, __file__, "--relay", str(relay_port), host]))
        ways.append(Way("relay", f"127.0.0.1:{relay_port}", cluster_form=True, pid=processes[0].pid))
        if importlib.util.find_spec("uvloop"):
            command = commandline.stand_in(
                port=other_port, config=status["configdb"], router_host=host, seed=0, server=cluster.server.version
            )
            processes.append(beside([*command, "--uvloop"]))
            ways.append(Way("router, uvloop", f"127.0.0.1:{other_port}", pid=processes[1].pid))
        results = {}
        for operation, clients in itertools.product(OPERATIONS, (1, arguments.clients)):
            figures = await asyncio.to_thread(measure, operation, ways, clients, arguments.rounds)
            results[operation, clients] = show(operation, clients, figures)
        added, alone = results["find", 1]
        _added, crowded = results["find", arguments.clients]
        print(f"find: {added:.3f} ms added to cluster* at the median; the goal is {ADDED_GOAL}")
        print(f"find: {alone:.2f} and {crowded:.2f} of its throughput; the goal is {THROUGHPUT_GOAL}")
        print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        await cluster.down()


def in_scratch(run: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    """Run it with a directory that is removed afterwards, where ledgers go too."""
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mongofault-bench-") as scratch:
        os.environ["MONGOFAULT_STATE"] = f"{scratch}/state"
        asyncio.run(run(Path(scratch)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help=f"turns of {TURN} operations on each path")
    parser.add_argument("--clients", type=int, default=8, help="at once, beside one alone")
    parser.add_argument("--relay", nargs=2, metavar=("PORT", "HOST:PORT"), help="be the bare relay (used by the run)")
    arguments = parser.parse_args()
    if arguments.relay:
        asyncio.run(relay(int(arguments.relay[0]), arguments.relay[1]))
        return
    in_scratch(lambda _directory: run(arguments))


if __name__ == "__main__":
    main()
