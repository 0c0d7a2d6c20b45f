"""One connection to a real mongod: a command out, a reply back, or an error that says what is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from clusters import ports
from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from clusters.wire.pool import Pool


@pytest.fixture
def host(replica_set: LocalCluster) -> str:
    return next(iter(replica_set.members.values())).host


@pytest.fixture
async def connection(host: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(host, deadline=10)
    yield connection
    connection.close()


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """A server that accepts and never answers."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    (port,) = ports.choose(1)
    server = await asyncio.start_server(swallow, "127.0.0.1", port)
    yield f"127.0.0.1:{port}"
    server.close()


async def test_nobody_listening_is_a_lost_connection_that_names_the_host() -> None:
    (port,) = ports.choose(1)
    with pytest.raises(ConnectionLost, match=f"cannot connect to 127.0.0.1:{port}"):
        await Connection.open(f"127.0.0.1:{port}", deadline=5)


async def test_a_handshake_that_is_never_answered_ends_at_the_deadline(silent: str) -> None:
    with pytest.raises(DeadlinePassed, match=r"no handshake within 0\.1 s"):
        await Connection.open(silent, deadline=0.1)


@pytest.mark.live
async def test_a_command_is_answered_and_a_refused_one_raises_with_its_code(connection: Connection) -> None:
    assert connection.hello["maxWireVersion"] >= 17
    assert (await connection.command("admin", {"ping": 1}))["ok"] == 1
    with pytest.raises(CommandFailed, match="CommandNotFound") as caught:
        await connection.command("admin", {"noSuchCommand": 1})
    assert (caught.value.code, caught.value.command, caught.value.host) == (59, "noSuchCommand", connection.host)
    assert connection.usable


@pytest.mark.live
async def test_a_deadline_that_passes_closes_the_connection(connection: Connection) -> None:
    """A late reply would be taken for the next command's."""
    slow = {"find": "x", "filter": {"$where": "sleep(2000)"}}
    await connection.command("wire", {"insert": "x", "documents": [{"a": 1}]})
    with pytest.raises(DeadlinePassed):
        await connection.command("wire", slow, deadline=0.1)
    assert not connection.usable
    with pytest.raises(ConnectionLost, match="closed here"):
        await connection.command("admin", {"ping": 1})


@pytest.mark.live
async def test_cancelling_a_command_closes_the_connection_too(connection: Connection) -> None:
    task = asyncio.create_task(connection.command("admin", {"ping": 1}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not connection.usable


@pytest.mark.live
async def test_a_second_command_while_one_waits_is_a_mistake_of_the_caller(connection: Connection) -> None:
    first = asyncio.create_task(connection.command("admin", {"ping": 1}))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already waiting"):
        await connection.command("admin", {"ping": 1})
    assert (await first)["ok"] == 1


@pytest.mark.live
async def test_an_internal_client_must_say_its_concerns(host: str) -> None:
    """The server treats it as a fellow server, which has no defaults (measured on 6.0.5)."""
    internal = await Connection.open(host, deadline=10, internal=True)
    with pytest.raises(CommandFailed, match="writeConcern"):
        await internal.command("wire", {"insert": "x", "documents": [{"a": 1}]})
    said = {"insert": "x", "documents": [{"a": 1}], "writeConcern": {"w": 1}}
    assert (await internal.command("wire", said))["n"] == 1
    internal.close()


@pytest.mark.live
async def test_a_pool_reuses_what_is_usable_and_drops_the_rest(host: str) -> None:
    pool = Pool(host)
    async with pool.connection() as first:
        async with pool.connection() as second:
            assert first is not second
        async with pool.connection() as again:
            assert again is second
    second.close()
    async with pool.connection() as one, pool.connection() as other:
        assert one is first
        assert other is not second
        assert (await other.command("admin", {"ping": 1}))["ok"] == 1
    pool.close()
    assert not first.usable
