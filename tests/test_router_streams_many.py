"""A thousand change streams open in one router at once: opened and served in bounded time and memory."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from clusters.local import LocalCluster
from clusters.wire.connection import Connection
from router_parts import to_router
from router_streams_raw import Raw, Stream, insert, numbers, raw_to, spread

pytestmark = [pytest.mark.live, pytest.mark.slow]

STREAMS = 1000
OPENED_AT_ONCE = 50
DEADLINE = 120.0
"""Seconds for opening them all, and for the delivery of what was written to all of them, on a burdened machine."""
MIB_A_THOUSAND = 128
EVENTS = 6


async def _open(host: str, database: str, room: asyncio.Semaphore) -> Stream:
    async with room:
        connection = await Connection.open(host, deadline=DEADLINE)
        return await Raw(connection, database).open(
            {"fullDocument": "updateLookup"}, "orders", (), **{"$readPreference": {"mode": "secondary"}}
        )


def _rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


async def test_a_thousand_streams_each_deliver_everything_in_order(sharded: LocalCluster) -> None:
    assert sharded.router is not None
    asking = await to_router(sharded)
    pid = (await asking.command("admin", {"mongofaultRouterStatus": 1}, deadline=DEADLINE))["pid"]
    before = _rss_mib(pid)
    async with raw_to(sharded) as raw:
        await spread(raw)
        room = asyncio.Semaphore(OPENED_AT_ONCE)
        began = time.monotonic()
        async with asyncio.timeout(DEADLINE):
            streams = await asyncio.gather(*(_open(sharded.router, raw.database, room) for _ in range(STREAMS)))
        opened = time.monotonic() - began
        try:
            began = time.monotonic()
            reading = asyncio.gather(*(stream.read(EVENTS, maxTimeMS=5000) for stream in streams))
            await insert(raw, range(EVENTS))
            async with asyncio.timeout(DEADLINE):
                delivered = await reading
            grown = _rss_mib(pid) - before
            print(f"opened in {opened:.1f} s, delivered in {time.monotonic() - began:.1f} s, {grown:.0f} MiB more")
            kill = {"killCursors": "orders", "cursors": [stream.cursor_id for stream in streams]}
            killed = (await asking.command(raw.database, kill, deadline=DEADLINE))["cursorsKilled"]
        finally:
            for stream in streams:
                stream.raw.connection.close()
    assert {tuple(numbers(events)) for events in delivered} == {tuple(range(EVENTS))}
    assert len(set(killed)) == STREAMS
    assert grown < MIB_A_THOUSAND
    asking.close()
