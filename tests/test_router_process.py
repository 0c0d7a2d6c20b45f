"""The router as a process: what it prints, how it ends, and what it says before there is a cluster."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest
from bson.int64 import Int64

from clusters import ports
from clusters.local import LocalCluster
from clusters.router import members, router_host
from clusters.router.router import Router, Settings
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost
from router_parts import session

COMMAND = (sys.executable, "-m", "clusters.router")
NOWHERE = ("--configdb", "config/127.0.0.1:9", "--router-host", "127.0.0.1:9")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "127.0.0.1", *NOWHERE), "expected HOST:PORT, found '127.0.0.1'"),
        (("--listen", "127.0.0.1:1", "--configdb", "h:1", "--router-host", "h:1"), "expected SET/HOST:PORT"),
        (("--listen", "127.0.0.1:1", "--configdb", "c/h:1"), "--router-host"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]


async def start(port: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("--listen", f"127.0.0.1:{port}", *NOWHERE),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"
    return process


async def test_it_says_ready_answers_hello_and_ends_on_sigterm_with_clients_connected() -> None:
    (port,) = ports.choose(1)
    process = await start(port)
    try:
        connection = await Connection.open(f"127.0.0.1:{port}", deadline=10)
        assert connection.hello["msg"] == "isdbgrid"
        taken = await asyncio.to_thread(run, "--listen", f"127.0.0.1:{port}", *NOWHERE)
        assert (taken.returncode, taken.stdout) == (48, "")
        assert "cannot listen on" in taken.stderr
        waiting = asyncio.create_task(connection.command("app", {"find": "orders"}))
        await asyncio.sleep(0)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
        assert time.monotonic() - began < 5
        with pytest.raises(ConnectionLost):
            await waiting
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def without_cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    """A connection to a router whose config servers and router host do not exist."""
    monkeypatch.setattr(router_host, "READY_DEADLINE", 0.3)
    monkeypatch.setattr(members, "FIND_DEADLINE", 0.3)
    (port,) = ports.choose(1)
    router = Router(Settings(f"127.0.0.1:{port}", "config/127.0.0.1:9", "127.0.0.1:9"))
    await router.start()
    connection = await Connection.open(f"127.0.0.1:{port}", deadline=10)
    yield connection
    connection.close()
    await router.close()


NUMBERED = {"insert": "orders", "documents": [{"a": 1}], "lsid": session(), "txnNumber": Int64(1)}


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ({"find": "orders"}, 6, "router host 127.0.0.1:9 to serve"),
        ({"insert": "orders", "documents": [{"a": 1}]}, 6, "router host 127.0.0.1:9 to serve"),
        (NUMBERED, 133, "set config"),
        ({"listCollections": 1}, 133, "set config"),
        ({"listShards": 1}, 133, "set config"),
    ],
)
async def test_a_command_before_there_is_a_cluster_fails_in_one_line_and_in_time(
    without_cluster: Connection, command: dict[str, object], code: int, said: str
) -> None:
    with pytest.raises(CommandFailed, match=said) as caught:
        await without_cluster.command("app", command, deadline=10)
    assert caught.value.code == code
    assert (await without_cluster.command("admin", {"ping": 1}))["ok"] == 1


@pytest.mark.live
async def test_a_router_started_beside_the_first_serves_the_same_cluster(sharded: LocalCluster) -> None:
    """It learns the shards from the config servers alone."""
    async with sharded.client() as client:
        first = await client.admin.command("mongofaultRouterStatus")
    (port,) = ports.choose(1)
    router = Router(Settings(f"127.0.0.1:{port}", first["configdb"], first["routerHost"], seed=5))
    await router.start()
    connection = await Connection.open(f"127.0.0.1:{port}", deadline=10)
    try:
        reply = await connection.command("router_second", NUMBERED, deadline=30)
        assert reply["n"] == 1
        found = await connection.command("router_second", {"find": "orders"}, deadline=30)
        assert [one["a"] for one in found["cursor"]["firstBatch"]] == [1]
        assert (await connection.command("router_second", {"dropDatabase": 1}, deadline=30))["dropped"]
    finally:
        connection.close()
        await router.close()
