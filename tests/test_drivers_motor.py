"""motor beside pymongo: what a cancelled wait does to a stream, and what is said where motor is not installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from aftermath import Place
from clusters.local import LocalCluster
from harness import exits
from harness.drivers.clients import ChangeStream, Driver, close_client, open_client, watch

AWAIT_MS = 5000


class GetMores(CommandListener):
    """Tells of the getMores of one client: asked, and answered with how many events."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answered: asyncio.Queue[int] = asyncio.Queue()

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "getMore":
            self.asked.set()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.command_name == "getMore":
            self.answered.put_nowait(len(event.reply["cursor"]["nextBatch"]))

    def failed(self, event: CommandFailedEvent) -> None: ...


@asynccontextmanager
async def cancelled_wait(cluster: LocalCluster, driver: Driver) -> AsyncIterator[tuple[ChangeStream, Any, GetMores]]:
    """A stream whose `try_next()` was cancelled while its getMore waited; the collection, and the getMores seen."""
    getmores = GetMores()
    client = open_client(cluster.uri, listeners=[getmores], driver=driver)
    try:
        collection: Any = client["drivers_motor"][driver]
        await collection.insert_one({"_id": "there"})
        stream = await watch(collection, max_await_time_ms=AWAIT_MS)
        waiting = asyncio.ensure_future(stream.try_next())
        async with asyncio.timeout(10):
            await getmores.asked.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        yield stream, collection, getmores
        await stream.close()
        await collection.drop()
    finally:
        await close_client(client)


@pytest.mark.live
async def test_a_cancelled_wait_closes_a_stream_of_pymongo(replica_set: LocalCluster) -> None:
    async with cancelled_wait(replica_set, "pymongo") as (stream, collection, _):
        assert not stream.alive
        await collection.insert_one({"_id": "missed"})
        assert await stream.try_next() is None


@pytest.mark.live
async def test_a_cancelled_wait_goes_on_in_motors_thread_and_its_event_reaches_nobody(
    replica_set: LocalCluster,
) -> None:
    async with cancelled_wait(replica_set, "motor") as (stream, collection, getmores):
        assert stream.alive
        before = stream.resume_token
        await collection.insert_one({"_id": "lost"})
        async with asyncio.timeout(10):
            assert await getmores.answered.get() == 1
        await collection.insert_one({"_id": "next"})
        change = await stream.try_next()
        assert change is not None
        assert change["documentKey"]["_id"] == "next"
        again = await watch(collection, resume_after=before)
        change = await again.try_next()
        assert change is not None
        assert change["documentKey"]["_id"] == "lost"
        await again.close()


def test_motor_where_it_is_not_installed_is_refused_in_one_line(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = (
        "import sys\n"
        "sys.modules['motor'] = None\n"
        "from harness.cli import main\n"
        "main(['run', 'update-lookup-stall', '--driver', 'motor'])\n"
    )
    process = place.python(script)
    out, err = process.communicate(timeout=60)
    assert process.returncode == exits.REFUSED
    assert out == ""
    assert err.splitlines() == [
        "mongofault: --driver motor: motor is not installed; install it with: pip install 'motor>=3.7,<4'"
    ]
    place.end()
