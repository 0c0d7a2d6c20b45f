"""Each kind of fault before a real server, as a driver or a raw client on the other side sees it."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, ServerSelectionTimeoutError

from clusters.local import LocalCluster
from clusters.wire.connection import Connection, ConnectionLost, DeadlinePassed
from clusters.wire.message import EXHAUST_ALLOWED, encode
from clusters.wire.proxy.client import Direction, Kind, Rule
from router_parts import until
from wire_proxy_parts import Running, proxy_before

pytestmark = pytest.mark.live
SHORT = 0.3
"""Seconds in which something that must not come is waited for."""
SOON = 10.0
PING = {"ping": 1}
NOWHERE = "proxied_nowhere"


@pytest.fixture(scope="module")
async def proxy(replica_set: LocalCluster) -> AsyncIterator[Running]:
    """Two links to one member, which advertises its own address: only what a test sends goes through."""
    host = next(iter(replica_set.members.values())).host
    async with proxy_before({"a": host, "b": host}, {host: "rs0-0"}) as running:
        yield running


@pytest.fixture(autouse=True)
def without_forgotten_sockets() -> Iterator[None]:
    """pymongo's monitor forgets a socket that is reset before it has a transport (4.20)."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
async def database(proxy: Running) -> AsyncIterator[str]:
    """The name of one of this test's own, dropped afterwards."""
    name = f"proxied_{uuid.uuid4().hex[:8]}"
    yield name
    async with proxy.client("b") as client:
        await client.drop_database(name)


async def test_without_rules_a_driver_works_and_no_link_reads_messages(proxy: Running, database: str) -> None:
    async with proxy.client("a") as client:
        documents = [{"_id": number, "text": "x" * 10_000} for number in range(2000)]
        await client[database].texts.insert_many(documents)
        assert await client[database].texts.find().to_list() == documents
    assert await proxy.control.counts() == []


async def test_latency_comes_on_top_in_each_direction_it_names(proxy: Running) -> None:
    connection = await proxy.raw("a")
    for direction, least in ((Direction.BOTH, 0.2), (Direction.FROM, 0.1)):
        async with proxy.rule(Rule(Kind.LATENCY, to=("a",), ms=100, direction=direction)) as name:
            began = time.monotonic()
            await connection.command("admin", PING)
            assert time.monotonic() - began >= least
            acted = await proxy.control.acted(name)
            assert (acted["matching"], acted["connections"]) == (1, 1)
            assert acted["bytes"] > 0
    other = await proxy.raw("b")
    async with proxy.rule(Rule(Kind.LATENCY, to=("a",), ms=60_000)):
        await other.command("admin", PING, deadline=SOON)
        waiting = asyncio.create_task(connection.command("admin", PING))
        await asyncio.wait([waiting], timeout=SHORT)
    # Healed: what was on its way waits no longer.
    assert (await asyncio.wait_for(waiting, SOON))["ok"] == 1
    connection.close()
    other.close()


async def test_bandwidth_is_shared_by_the_connections_of_a_rule(proxy: Running) -> None:
    first, second = await proxy.raw("a"), await proxy.raw("a")
    filler = {"ping": 1, "comment": "x" * 10_000}
    async with proxy.rule(Rule(Kind.BANDWIDTH, to=("a",), bytes_per_second=40_000, direction=Direction.TO)):
        began = time.monotonic()
        await asyncio.gather(first.command("admin", filler), second.command("admin", filler))
        assert time.monotonic() - began >= 0.5
    first.close()
    second.close()


async def test_a_blackhole_holds_what_is_open_and_what_is_new_and_lets_it_flow_on(proxy: Running) -> None:
    async with proxy.client("a", socketTimeoutMS=300, retryReads=False) as client:
        await client.admin.command("ping")
        open_before = await proxy.raw("a")
        async with proxy.rule(Rule(Kind.BLACKHOLE, to=("a",))) as name:
            waiting = asyncio.create_task(open_before.command("admin", PING))
            with pytest.raises(NetworkTimeout):
                await client.admin.command("ping")
            with pytest.raises(DeadlinePassed):
                await Connection.open(proxy.hosts["a"], deadline=SHORT)
            assert not waiting.done()
            acted = await proxy.control.acted(name)
            assert acted["connections"] >= 3
        assert (await asyncio.wait_for(waiting, SOON))["ok"] == 1
        await client.admin.command("ping")
        open_before.close()


async def test_a_blackhole_in_one_direction_delivers_the_request(proxy: Running, database: str) -> None:
    connection = await proxy.raw("a")
    async with proxy.client("b") as client:
        async with proxy.rule(Rule(Kind.BLACKHOLE, to=("a",), direction=Direction.FROM)):
            waiting = asyncio.create_task(
                connection.command(database, {"insert": "one", "documents": [{"_id": 1}], "writeConcern": {"w": 1}})
            )

            async def written() -> bool:
                return await client[database].one.count_documents({}) == 1

            await until(written, "the write that is never acknowledged")
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, SOON))["n"] == 1
    connection.close()


async def test_a_rule_with_a_source_leaves_the_others_alone(proxy: Running) -> None:
    """Also on new connections, which nobody knows before their first message."""
    mine, other = await proxy.raw("a", app_name="mine"), await proxy.raw("a", app_name="other")
    router = await proxy.raw("a", app_name="mongofault router")
    async with proxy.rule(Rule(Kind.BLACKHOLE, source=("app:mine",))):
        await other.command("admin", PING, deadline=SOON)
        (await proxy.raw("a", app_name="other")).close()
        with pytest.raises(DeadlinePassed):
            await mine.command("admin", PING, deadline=SHORT)
        with pytest.raises(DeadlinePassed):
            await Connection.open(proxy.hosts["a"], deadline=SHORT, app_name="mine")
    async with proxy.rule(Rule(Kind.BLACKHOLE, source=("driver",))):
        await router.command("admin", PING, deadline=SOON)
        with pytest.raises(DeadlinePassed):
            await other.command("admin", PING, deadline=SHORT)
    router.close()


async def test_swallow_delivers_the_request_and_resets_its_connection_when_healed(
    proxy: Running, database: str
) -> None:
    connection, other = await proxy.raw("a"), await proxy.raw("a")
    rule = Rule(Kind.SWALLOW, to=("a",), commands=("insert",), namespace=f"{database}.one")
    async with proxy.client("b") as client:
        async with proxy.rule(rule) as name:
            insert = {"insert": "one", "documents": [{"_id": 1}]}
            waiting = asyncio.create_task(connection.command(database, insert))

            async def written() -> bool:
                return await client[database].one.count_documents({}) == 1

            await until(written, "the write whose reply is swallowed")
            assert (await other.command(database, {"insert": "two", "documents": [{"_id": 1}]}))["n"] == 1

            async def swallowed() -> bool:
                acted = await proxy.control.acted(name)
                return (acted["connections"], acted["messages"]) == (1, 1) and acted["bytes"] > 0

            await until(swallowed, "one reply swallowed")
            assert not waiting.done()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(waiting, SOON)
        await other.command("admin", PING)
    other.close()


async def test_swallow_takes_the_reply_to_a_request_sent_before_the_rule(proxy: Running, database: str) -> None:
    connection = await proxy.raw("a")
    await connection.command(database, {"insert": "one", "documents": [{"_id": 1}]})
    slow = {"find": "one", "filter": {"$where": "sleep(500) || true"}}
    waiting = asyncio.create_task(connection.command(database, slow))
    await asyncio.sleep(0)
    async with proxy.rule(Rule(Kind.SWALLOW, to=("a",), commands=("find",))) as name:

        async def swallowed() -> bool:
            return bool((await proxy.control.acted(name))["messages"])

        await until(swallowed, "the reply to the older find")
        assert not waiting.done()
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, SOON)


async def test_half_open_forgets_what_is_open_and_tells_nobody(proxy: Running, database: str) -> None:
    connection = await proxy.raw("a")
    async with proxy.rule(Rule(Kind.HALF_OPEN, to=("a",))) as name:
        waiting = asyncio.create_task(connection.command(database, {"insert": "one", "documents": [{}]}))
        new = await proxy.raw("a")
        await new.command("admin", PING, deadline=SOON)
        assert (await new.command(database, {"count": "one"}))["n"] == 0
        assert not waiting.done()
        assert (await proxy.control.acted(name))["bytes"] > 0
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, SOON)
    assert (await new.command(database, {"count": "one"}))["n"] == 0
    new.close()


async def test_cut_resets_what_is_open_once(proxy: Running) -> None:
    async with proxy.client("a") as client:
        await client.admin.command("ping")
        connection = await proxy.raw("a")
        waiting = asyncio.create_task(connection.command("admin", {"hello": 1, **_awaiting(connection.hello)}))
        await asyncio.sleep(0)
        async with proxy.rule(Rule(Kind.CUT, to=("a",))) as name:
            with pytest.raises(ConnectionLost, match="reset by peer"):
                await asyncio.wait_for(waiting, SOON)
            acted = await proxy.control.acted(name)
            assert acted["resets"] == acted["connections"] >= 2
            # A read that may be retried: the driver takes a new connection.
            await client[NOWHERE].one.find_one()
            (await proxy.raw("a")).close()
            assert (await proxy.control.acted(name))["resets"] == acted["resets"]


def _awaiting(hello: dict[str, object]) -> dict[str, object]:
    """Fields of a hello that waits for the topology to change."""
    return {"topologyVersion": hello["topologyVersion"], "maxAwaitTimeMS": 60_000}


async def test_cut_with_a_command_resets_instead_of_delivering(proxy: Running, database: str) -> None:
    async with proxy.client("a", retryWrites=False) as client:
        async with proxy.rule(Rule(Kind.CUT, to=("a",), commands=("insert",))) as name:
            assert await client[database].one.count_documents({}) == 0
            with pytest.raises(AutoReconnect):
                await client[database].one.insert_one({"_id": 1})
            acted = await proxy.control.acted(name)
            assert (acted["messages"], acted["resets"]) == (1, 1)
        assert await client[database].one.count_documents({}) == 0


async def test_refuse_resets_new_connections_and_leaves_what_is_open(proxy: Running) -> None:
    connection = await proxy.raw("a")
    async with proxy.rule(Rule(Kind.REFUSE, to=("a",))) as name:
        await connection.command("admin", PING)
        async with proxy.client("a", serverSelectionTimeoutMS=300) as client:
            with pytest.raises(ServerSelectionTimeoutError):
                await client.admin.command("ping")
        assert (await proxy.control.acted(name))["resets"] > 0
    async with proxy.rule(Rule(Kind.REFUSE, to=("a",), source=("app:unwanted",))):
        with pytest.raises(ConnectionLost):
            await proxy.raw("a", app_name="unwanted")
        (await proxy.raw("a", app_name="wanted")).close()
    connection.close()


async def test_a_command_is_held_by_name_and_the_rest_passes(proxy: Running) -> None:
    connection, other = await proxy.raw("a"), await proxy.raw("a")
    async with proxy.rule(Rule(Kind.BLACKHOLE, to=("a",), commands=("aggregate",))) as name:
        held = {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}
        waiting = asyncio.create_task(connection.command("admin", held))
        await other.command("admin", PING, deadline=SOON)

        async def is_held() -> bool:
            return bool((await proxy.control.acted(name))["messages"])

        await until(is_held, "the aggregate")
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, SOON))["ok"] == 1
    connection.close()
    other.close()


async def test_a_stream_of_replies_is_swallowed_from_the_middle_on(proxy: Running) -> None:
    """A monitor's hello: one request, before anybody read, and replies without another one."""
    loop = asyncio.get_running_loop()
    first = await proxy.raw("a")
    host, _, port = proxy.hosts["a"].rpartition(":")
    with socket.socket() as stream:
        stream.setblocking(False)
        await loop.sock_connect(stream, (host, int(port)))
        hello = {"hello": 1, "topologyVersion": first.hello["topologyVersion"], "maxAwaitTimeMS": 100, "$db": "admin"}
        await loop.sock_sendall(stream, encode(hello, request_id=1, flags=EXHAUST_ALLOWED))
        for _ in range(2):
            assert await asyncio.wait_for(loop.sock_recv(stream, 1 << 16), SOON)
        async with proxy.rule(Rule(Kind.SWALLOW, to=("a",), commands=("hello",))) as name:

            async def swallowed() -> bool:
                acted = await proxy.control.acted(name)
                assert acted["connections"] <= 1
                return bool(acted["messages"] >= 3)

            await until(swallowed, "replies of a stream that was there before the rule")
            with pytest.raises(BlockingIOError):
                stream.recv(1)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(loop.sock_recv(stream, 1), SOON)
    first.close()


async def test_a_client_that_left_is_gone_from_the_server_too(proxy: Running) -> None:
    before = await proxy.open_connections("b")
    connection = await proxy.raw("b")
    assert await proxy.open_connections("b") == before + 1
    connection.close()

    async def gone() -> bool:
        return await proxy.open_connections("b") == before

    await until(gone, "the connection")
