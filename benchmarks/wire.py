"""What the wire proxy adds: straight to a member, through the proxy, through the proxy's tap, through haproxy.

Usage: python benchmarks/wire.py [--rounds 40] [--clients 8] [--connections 1000]
Raw connections without a driver to one member; the ways take short turns, so that load hits all alike; ratios are
medians of the rounds' ratios. haproxy (Debian package `haproxy`) in TCP mode, on one thread as the proxy is, shows what
a relay costs that is not written in Python. Where uvloop is installed, a second proxy runs on it. CPU is user and
system time of the relay's process (/proc/PID/stat); memory is what its resident set grows by.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.router import TURN, Figures, Lanes, Way, beside, cpu_seconds, in_scratch
from clusters import local, ports
from clusters.topology import single_replica_set
from clusters.wire.message import encode
from clusters.wire.proxy.client import ProxyControl

ADDED_GOAL: Final = 0.25
"""Milliseconds the proxy may add at the median of a small command, one client."""
THROUGHPUT_GOAL: Final = 0.8
"""Of the finds of 16 KB documents a second that go straight to the member."""
MEMORY_GOAL: Final = 50
"""MB that the open connections may take."""
BATCH: Final = 100
"""Documents of 16 KB in the reply to one find, beside finds of one."""
LISTENS: Final = 10.0
"""Seconds for haproxy to listen."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """`make` frames one command; its first argument is not needed here. `turn` of them are a way's turn."""

    name: str
    make: Callable[[str, Document], bytes]
    turn: int = TURN


def ping(_name: str, lsid: Document) -> bytes:
    return encode({"ping": 1, "lsid": lsid, "$db": "admin"}, request_id=1)


def find(key: str) -> Callable[[str, Document], bytes]:
    def make(_name: str, lsid: Document) -> bytes:
        body = {"find": "texts", "filter": {"_id": key}, "limit": 1, "singleBatch": True, "lsid": lsid, "$db": "bench"}
        return encode(body, request_id=1)

    return make


def batch(_name: str, lsid: Document) -> bytes:
    body = {"find": "batch", "batchSize": BATCH, "singleBatch": True, "lsid": lsid, "$db": "bench"}
    return encode(body, request_id=1)


OPERATIONS: Final = (
    Operation("ping", ping),
    Operation("find 200 B", find("small")),
    Operation("find 16 KB", find("large")),
    Operation("find 1.6 MB", batch, turn=20),
)


def measure(operation: Operation, ways: list[Way], clients: int, rounds: int) -> dict[str, Figures]:
    """Rounds of one turn for each way; the first round only warms up."""
    lanes = [Lanes(way, clients) for way in ways]
    figures = {way.name: Figures() for way in ways}
    try:
        for number in range(rounds + 1):
            for one in lanes[number % len(lanes) :] + lanes[: number % len(lanes)]:
                found = figures[one.way.name]
                before, began = cpu_seconds(one.way.pid) if one.way.pid else 0.0, time.perf_counter()
                taken = one.turn("", operation.make, operation.turn)
                elapsed = time.perf_counter() - began
                if number:
                    found.taken += taken
                    found.rates.append(len(taken) / elapsed)
                    found.cpu += cpu_seconds(one.way.pid) - before if one.way.pid else 0.0
    finally:
        for one in lanes:
            one.close()
    return figures


def show(operation: Operation, clients: int, figures: Mapping[str, Figures]) -> dict[str, tuple[float, float]]:
    """Prints a line for each way; gives what each adds to `direct` (ms) and its share of the throughput."""
    direct = figures["direct"]
    found = {}
    for name, figure in figures.items():
        line = f"{operation.name:<12}{clients:>2}  {name:<14} p50 {figure.median * 1e3:6.3f} ms"
        line += f" {statistics.median(figure.rates):7.0f}/s"
        if figure is not direct:
            added = (figure.median - direct.median) * 1e3
            share = statistics.median(mine / its for mine, its in zip(figure.rates, direct.rates, strict=True))
            found[name] = added, share
            line += f"  {added:+.3f} ms, {share:.2f} of direct"
        if figure.cpu:
            line += f"  CPU {figure.cpu / len(figure.taken) * 1e6:4.0f} us"
        print(line, flush=True)
    return found


def haproxy(program: str, scratch: Path, port: int, target: str) -> subprocess.Popen[bytes]:
    """In the foreground, with no rights and no files of its own."""
    config = scratch / "haproxy.cfg"
    config.write_text(
        "global\n  nbthread 1\n  maxconn 5000\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
        f"listen wire\n  bind 127.0.0.1:{port}\n  server member {target}\n"
    )
    process = subprocess.Popen([program, "-db", "-q", "-f", str(config)])
    end = time.monotonic() + LISTENS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            time.sleep(0.02)
    process.kill()
    raise SystemExit(f"haproxy does not listen within {LISTENS:g} s")


def resident(pid: int) -> float:
    """MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def memory(way: Way, count: int) -> float:
    """MB by which as many connections, each used once, make the relay grow."""
    before = resident(way.pid)
    host, _, port = way.address.rpartition(":")
    hello = encode({"hello": 1, "client": {"driver": {"name": "bench", "version": "1"}}, "$db": "admin"}, request_id=1)
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection((host, int(port)), timeout=30))
            opened[-1].sendall(hello)
        for one in opened:
            assert one.recv(1 << 16)
            one.sendall(ping("", {"id": 1}).replace(b"lsid", b"lsi_"))
            assert one.recv(1 << 16)
        return resident(way.pid) - before
    finally:
        for one in opened:
            one.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


async def run(arguments: argparse.Namespace, scratch: Path) -> None:
    async with AsyncExitStack() as ending:
        cluster = await local.bring_up(single_replica_set(1), f"bench-wire-{os.getpid()}")
        ending.push_async_callback(cluster.down)
        member = next(iter(cluster.members.values()))
        print(f"mongod {cluster.server.version}, {os.cpu_count()} cores", flush=True)
        async with cluster.client() as client:
            await client.bench.texts.insert_many(
                [{"_id": "small", "text": "x" * 200}, {"_id": "large", "text": "x" * 16_384}]
            )
            await client.bench.batch.insert_many([{"text": "x" * 16_384} for _ in range(BATCH)])
        ways = [Way("direct", member.host)]

        def proxy(name: str, *options: str) -> str:
            """Starts one and gives its control address."""
            control, listen = (f"127.0.0.1:{port}" for port in ports.choose(2))
            command = [sys.executable, "-P", "-m", "clusters.wire.proxy", "--control", control]
            process = beside([*command, "--link", f"a={listen},{member.host}", *options])
            ending.callback(stop, process)
            ways.append(Way(name, listen, pid=process.pid))
            return control

        proxy("proxy")
        tapped = await ProxyControl.open(proxy("proxy, tap"))
        await tapped.tap(True)
        if importlib.util.find_spec("uvloop"):
            proxy("proxy, uvloop", "--uvloop")
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            print("haproxy is not here (Debian: apt-get install haproxy); going on without", flush=True)
        else:
            (port,) = ports.choose(1)
            process = haproxy(program, scratch, port, member.host)
            ending.callback(stop, process)
            ways.append(Way("haproxy", f"127.0.0.1:{port}", pid=process.pid))
        results = {}
        for operation in OPERATIONS:
            for clients in (1, arguments.clients):
                figures = await asyncio.to_thread(measure, operation, ways, clients, arguments.rounds)
                results[operation.name, clients] = show(operation, clients, figures)
        counted = sum(row["total"] for row in await tapped.counts(command="find"))
        finds = sum(operation.turn for operation in OPERATIONS if operation.name != "ping")
        sent = (1 + arguments.rounds) * finds * 2
        print(f"the tap counted {counted} finds of {sent} sent")
        tapped.close()
        grown = {way.name: memory(way, arguments.connections) for way in ways if way.pid}
        for name, size in grown.items():
            print(f"{arguments.connections} connections: {size:.1f} MB more in {name}")
        added = max(results[name, 1]["proxy"][0] for name in ("ping", "find 200 B"))
        print(f"small commands: {added:.3f} ms added at the median; the goal is {ADDED_GOAL}")
        for name in ("find 16 KB", "find 1.6 MB"):
            alone, crowded = (results[name, clients]["proxy"][1] for clients in (1, arguments.clients))
            line = f"{name}: {alone:.2f} and {crowded:.2f} of direct; the goal is {THROUGHPUT_GOAL}"
            if program is not None:
                alone, crowded = (results[name, clients]["haproxy"][1] for clients in (1, arguments.clients))
                line += f"; haproxy: {alone:.2f} and {crowded:.2f}"
            print(line)
        print(f"{arguments.connections} connections: {grown['proxy']:.1f} MB; the goal is {MEMORY_GOAL} for 1000")
        print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help=f"turns of {TURN} operations on each way")
    parser.add_argument("--clients", type=int, default=8, help="at once, beside one alone")
    parser.add_argument("--connections", type=int, default=1000, help="open at once, for the memory they take")
    arguments = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    in_scratch(lambda scratch: run(arguments, scratch))


if __name__ == "__main__":
    main()
