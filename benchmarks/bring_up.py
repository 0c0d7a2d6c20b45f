"""How fast a cluster is Ready, and a three-member set against mtools' `mlaunch`, both measured in this run.

Usage: python benchmarks/bring_up.py [--rounds 5] [--mlaunch-rounds 3]
`mlaunch` is installed from PyPI into a virtual environment of its own that goes with the run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from clusters import local, ports
from clusters.binaries import find_mongod
from clusters.topology import Topology, sharded_cluster, single_replica_set

PRIMARY_DEADLINE = 90.0


async def ours(topology: Topology, rounds: int, name: str) -> list[float]:
    """Seconds from the call to Ready, a value a round."""
    taken = []
    for number in range(rounds):
        start = time.monotonic()
        cluster = await local.bring_up(topology, f"{name}-{number}")
        taken.append(time.monotonic() - start)
        await cluster.down()
    return taken


def mlaunch(rounds: int, scratch: Path) -> list[float]:
    """Seconds from the command to a writable primary, a value a round."""
    environment = scratch / "mlaunch"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    # mlaunch 1.7 names its dependencies in an extra; the driver it is used with must know the server.
    subprocess.run(
        [environment / "bin/pip", "install", "-q", "--disable-pip-version-check", "setuptools", "mtools[mlaunch]"],
        check=True,
    )
    taken = []
    for number in range(rounds):
        data = scratch / f"data{number}"
        first, *_ = chosen = _three_in_a_row()
        command: list[str | Path] = [
            *(environment / "bin/mlaunch", "init", "--replicaset", "--nodes", "3", "--port", str(first)),
            *("--dir", data, "--binarypath", find_mongod().path.parent, "--bind_ip", "127.0.0.1"),
        ]
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _writable([f"127.0.0.1:{port}" for port in chosen])
        taken.append(time.monotonic() - start)
        _end(data)
    return taken


def _three_in_a_row() -> list[int]:
    while True:
        (first,) = ports.choose(1)
        if first + 2 < ports.HIGHEST and all(ports.free(first + offset) for offset in range(3)):
            return [first, first + 1, first + 2]


def _writable(hosts: list[str]) -> None:
    end = time.monotonic() + PRIMARY_DEADLINE
    clients: list[MongoClient[dict[str, object]]] = [
        MongoClient(host, directConnection=True, serverSelectionTimeoutMS=500) for host in hosts
    ]
    try:
        while time.monotonic() < end:
            for client in clients:
                with contextlib.suppress(PyMongoError):
                    if client.admin.command("hello").get("isWritablePrimary"):
                        return
            time.sleep(0.02)
    finally:
        for client in clients:
            client.close()
    raise SystemExit(f"mlaunch: no writable primary within {PRIMARY_DEADLINE:g} s")


def _end(data: Path) -> None:
    """Kill the processes whose data lies in the directory; mlaunch's own stop waits for a quiet shutdown."""
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if directory.name.isdigit() and os.fsencode(f"{data}/") in (directory / "cmdline").read_bytes():
                os.kill(int(directory.name), signal.SIGKILL)


def show(what: str, taken: list[float]) -> float:
    median = statistics.median(taken)
    print(f"{what:<44} median {median:6.2f} s   ({min(taken):.2f} to {max(taken):.2f}, n={len(taken)})", flush=True)
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mlaunch-rounds", type=int, default=3, help="0 leaves mlaunch out")
    arguments = parser.parse_args()
    print(f"mongod {find_mongod().version}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mongofault-bench-") as scratch:
        os.environ["MONGOFAULT_STATE"] = f"{scratch}/state"
        show("1 config + 2 x 3 + router, Ready", asyncio.run(ours(sharded_cluster(2, 3), arguments.rounds, "sharded")))
        single = show("3-member set, Ready", asyncio.run(ours(single_replica_set(3), arguments.rounds, "set")))
        if arguments.mlaunch_rounds:
            theirs = show("3-member set by mlaunch, writable primary", mlaunch(arguments.mlaunch_rounds, Path(scratch)))
            print(f"ratio: {single / theirs:.3f} of mlaunch's time (1/{theirs / single:.0f})")


if __name__ == "__main__":
    main()
