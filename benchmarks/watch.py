"""What `mongofault watch` costs a loaded cluster: writes a second with it and without, in turns, in the same run.

Usage: python benchmarks/watch.py [--rounds 5] [--seconds 10] [--members 7] [--writers 16] [--streams 8] [--interval 1s]
One replica set, all of whose members are asked. A round is without, with, with, without; its ratio is the writes of the
two with it over those of the two without. Ends with 1 where the median of the ratios is below --least.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient, WriteConcern

from clusters import local
from clusters.local import OwnCluster
from clusters.topology import single_replica_set

SETTLE = 2.0
"""Seconds of load before each measurement: the watch has found out its cluster by then."""
DOCUMENTS = 1000


class Load:
    """Writers that each send the next update when the last one is acknowledged by the majority."""

    def __init__(self, client: AsyncMongoClient[dict[str, Any]]) -> None:
        self.acknowledged = 0
        self._orders = client.bench.get_collection("orders", write_concern=WriteConcern("majority"))

    async def prepare(self) -> None:
        await self._orders.insert_many([{"_id": number, "seq": 0} for number in range(DOCUMENTS)])

    async def write(self, writer: int) -> None:
        number = writer
        while True:
            number += 1
            await self._orders.update_one({"_id": (number * 7919) % DOCUMENTS}, {"$inc": {"seq": 1}})
            self.acknowledged += 1

    async def read(self) -> None:
        async with await self._orders.watch(full_document="updateLookup") as stream:
            while True:
                await stream.try_next()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def watched(cluster: OwnCluster, interval: str) -> AsyncIterator[Callable[[], float]]:
    """Gives a function that tells the seconds of CPU of the watch so far."""
    command = [sys.executable, "-m", "harness", "watch", "--uri", cluster.uri, "--interval", interval, "--json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        # The first look is over before anything is measured; from then on the looks are read and thrown away.
        async with asyncio.timeout(120):
            await process.stdout.readline()
        reading = asyncio.create_task(process.stdout.read())
        yield lambda: cpu_seconds(process.pid)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    await reading


async def measured(load: Load, seconds: float) -> float:
    """Writes a second."""
    await asyncio.sleep(SETTLE)
    before, start = load.acknowledged, time.monotonic()
    await asyncio.sleep(seconds)
    return (load.acknowledged - before) / (time.monotonic() - start)


async def run(arguments: argparse.Namespace) -> float:
    cluster = await local.bring_up(single_replica_set(arguments.members), f"bench-watch-{os.getpid()}")
    ratios = []
    try:
        async with AsyncExitStack() as stack:
            load = Load(await stack.enter_async_context(cluster.client()))
            await load.prepare()
            tasks = [asyncio.create_task(load.write(number)) for number in range(arguments.writers)]
            tasks += [asyncio.create_task(load.read()) for _ in range(arguments.streams)]
            stack.callback(lambda: [task.cancel() for task in tasks])
            for number in range(1, arguments.rounds + 1):
                without = [await measured(load, arguments.seconds)]
                async with watched(cluster, arguments.interval) as used:
                    before, start = used(), time.monotonic()
                    with_it = [await measured(load, arguments.seconds), await measured(load, arguments.seconds)]
                    cores = (used() - before) / (time.monotonic() - start)
                without.append(await measured(load, arguments.seconds))
                ended = [task for task in tasks if task.done()]
                if ended:
                    raise RuntimeError(f"the load ended: {ended[0].exception()!r}")
                ratios.append(sum(with_it) / sum(without))
                print(
                    f"round {number}: without {without[0]:.0f} and {without[1]:.0f} writes/s, "
                    f"with {with_it[0]:.0f} and {with_it[1]:.0f}: ratio {ratios[-1]:.3f}; "
                    f"the watch itself takes {cores:.3f} cores",
                    flush=True,
                )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await cluster.down()
    median = statistics.median(ratios)
    print(
        f"{arguments.members} members, {arguments.writers} writers, {arguments.streams} streams, a look every "
        f"{arguments.interval}: median ratio {median:.3f}, from {min(ratios):.3f} to {max(ratios):.3f}, "
        f"{arguments.rounds} rounds of 4 x {arguments.seconds:g} s"
    )
    return median


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--members", type=int, default=7)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--least", type=float, default=0.97)
    arguments = parser.parse_args()
    return int(asyncio.run(run(arguments)) < arguments.least)


if __name__ == "__main__":
    sys.exit(main())
