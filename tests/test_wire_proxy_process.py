"""The proxy as a process: how it starts and ends, what its control address says, and what is left when it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from clusters import ports
from clusters.guard.undo import RemoveRule
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost
from clusters.wire.proxy.client import Kind, ProxyControl, Rule
from wire_proxy_parts import COMMAND, DEADLINE, Running, proxy_before

NOWHERE = "127.0.0.1:9"
LINK = ("--link", f"a=127.0.0.1:1,{NOWHERE}")


@pytest.fixture(scope="module")
async def proxy() -> AsyncIterator[Running]:
    """Nobody is behind it."""
    async with proxy_before({"a": NOWHERE, "b": NOWHERE}, {"127.0.0.1:20001": "rs0-0"}) as running:
        yield running


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--control", "127.0.0.1", *LINK), "expected HOST:PORT, found '127.0.0.1'"),
        (("--control", "127.0.0.1:1"), "--link"),
        (("--control", "127.0.0.1:1", "--link", "a=127.0.0.1:1"), "expected NAME=HOST:PORT,HOST:PORT"),
        (("--control", "127.0.0.1:1", *LINK, *LINK), "two links are called 'a'"),
        (("--control", "127.0.0.1:1", *LINK, "--peer", "127.0.0.1:1"), "expected HOST:PORT=NAME"),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]


async def test_a_port_that_somebody_has_ends_it_as_it_ends_a_server(proxy: Running) -> None:
    (free,) = ports.choose(1)
    for control, link in ((proxy.control_host, f"127.0.0.1:{free}"), (f"127.0.0.1:{free}", proxy.hosts["a"])):
        arguments = ("--control", control, "--link", f"a={link},{NOWHERE}")
        ended = await asyncio.to_thread(
            subprocess.run, [*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        taken = link if link == proxy.hosts["a"] else control
        assert (ended.returncode, ended.stdout) == (48, "")
        assert ended.stderr.startswith(f"cannot listen on {taken}")
    ports.give_back([free])


async def test_it_ends_on_sigterm_at_once_with_connections_open() -> None:
    async with proxy_before({"a": NOWHERE}) as running:
        await running.control.add(Rule(Kind.BLACKHOLE))
        host, _, port = running.hosts["a"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.process.wait(), DEADLINE) == 0
        assert time.monotonic() - began < 2
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), DEADLINE)
        writer.close()


async def test_killed_it_leaves_no_connection_and_no_listener() -> None:
    """Its clients and its servers hear of it from the kernel."""
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def on_connect(*streams: Any) -> None:
        await accepted.put(streams)

    (port,) = ports.choose(1)
    server = await asyncio.start_server(on_connect, "127.0.0.1", port)
    async with proxy_before({"a": f"127.0.0.1:{port}"}) as running:
        host, _, listening = running.hosts["a"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(listening))
        writer.write(b"no message, and long enough to be told from one")
        behind, answering = await asyncio.wait_for(accepted.get(), DEADLINE)
        assert (await behind.read(10)) == b"no message"
        await running.control.add(Rule(Kind.BLACKHOLE))
        running.process.kill()
        for side in (reader, behind):
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(side.read(), DEADLINE)
        # A process closes one after the other.
        await asyncio.wait_for(running.process.wait(), DEADLINE)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(listening))
        writer.close()
        answering.close()
    server.close()
    ports.give_back([port])


async def test_a_target_that_is_not_there_resets_whoever_asks_for_it(proxy: Running) -> None:
    with pytest.raises(ConnectionLost, match="reset by peer"):
        await proxy.raw("a")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ({"proxyAddRule": 1}, 9, "expected proxyAddRule to be a document, found 1"),
        ({"proxyAddRule": {}}, 2, "expected proxyAddRule.kind, one of latency, "),
        ({"proxyAddRule": {"kind": "fire"}}, 2, "proxyAddRule.kind to be one of latency, "),
        (
            {"proxyAddRule": {"kind": "cut", "colour": 1}},
            40415,
            "BSON field 'proxyAddRule.colour' is an unknown field.",
        ),
        ({"proxyAddRule": {"kind": "cut"}, "x": 1}, 40415, "BSON field 'proxyAddRule.x' is an unknown field."),
        ({"proxyAddRule": {"kind": "cut", "to": ["c"]}}, 2, "proxyAddRule.to names 'c', expected one of a, b"),
        ({"proxyAddRule": {"kind": "cut", "source": "rs0-9"}}, 2, "expected one of rs0-0, router, driver"),
        ({"proxyAddRule": {"kind": "cut", "to": [1]}}, 14, "proxyAddRule.to to be names"),
        ({"proxyAddRule": {"kind": "cut", "namespace": 1}}, 14, "proxyAddRule.namespace to be a string"),
        ({"proxyAddRule": {"kind": "cut", "direction": "to"}}, 2, "kind cut takes no direction"),
        ({"proxyAddRule": {"kind": "refuse", "commands": "find"}}, 2, "it takes no commands and no namespace"),
        ({"proxyAddRule": {"kind": "latency"}}, 2, "kind latency needs ms above 0"),
        ({"proxyAddRule": {"kind": "latency", "ms": "1"}}, 14, "proxyAddRule.ms to be a number"),
        ({"proxyAddRule": {"kind": "latency", "ms": -1}}, 2, "expected ms to be 0 or more, found -1"),
        ({"proxyAddRule": {"kind": "latency", "ms": float("nan")}}, 2, "expected ms to be 0 or more, found nan"),
        ({"proxyAddRule": {"kind": "cut", "ms": 1}}, 2, "kind cut takes no ms"),
        ({"proxyAddRule": {"kind": "bandwidth"}}, 2, "needs bytesPerSecond of 1 or more"),
        ({"proxyAddRule": {"kind": "cut", "id": 1}}, 14, "proxyAddRule.id to be a string"),
        ({"proxyRemoveRule": 1}, 14, "proxyRemoveRule to be the id of a rule"),
        ({"proxyTap": {}}, 14, "proxyTap.on and clear to be true or false"),
        ({"proxyTap": {"on": True, "links": ["c"]}}, 2, "proxyTap.links names 'c', expected one of a, b"),
        ({"proxyTap": {"on": True, "all": 1}}, 40415, "BSON field 'proxyTap.all' is an unknown field."),
        ({"proxyCounts": {"by": "day"}}, 2, "proxyCounts.by to be one of command, transaction, comment"),
        ({"proxyCounts": {"lsid": 1}}, 40415, "BSON field 'proxyCounts.lsid' is an unknown field."),
        ({"proxyCounts": {"limit": -1}}, 2, "proxyCounts.limit to be 0 or more"),
        ({"shutdown": 1}, 59, "no such command: 'shutdown'"),
    ],
)
async def test_bad_input_is_refused_in_one_line_with_a_servers_code(
    proxy: Running, command: Mapping[str, Any], code: int, said: str
) -> None:
    connection = await Connection.open(proxy.control_host, deadline=DEADLINE)
    with pytest.raises(CommandFailed) as caught:
        await connection.command("admin", command)
    assert caught.value.code == code
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (await connection.command("admin", {"proxyStatus": 1}))["rules"] == []
    connection.close()


async def test_a_rule_is_added_under_an_id_and_removed_any_number_of_times(proxy: Running) -> None:
    rule = Rule(Kind.LATENCY, to=("a",), source=("app:x", "rs0-0"), commands=("find",), namespace="d.c", ms=1, seed=3)
    assert await proxy.control.add(rule, "mine") == "mine"
    assert await proxy.control.add(rule, "mine") == "mine"
    with pytest.raises(CommandFailed, match="remove it first"):
        await proxy.control.add(Rule(Kind.CUT), "mine")
    other = await proxy.control.add(rule)
    (found, second) = (await proxy.control.status())["rules"]
    assert (found["id"], second["id"]) == ("mine", other)
    counts = {"id": "mine", "matching": 0, "connections": 0, "messages": 0, "bytes": 0, "resets": 0}
    assert found == rule.document() | counts
    assert await proxy.control.remove("mine")
    assert not await proxy.control.remove("mine")
    assert await proxy.control.remove(other)


async def test_an_undo_record_heals_through_the_guards_own_client_twice(proxy: Running) -> None:
    name = await proxy.control.add(Rule(Kind.BLACKHOLE))
    undo = RemoveRule(proxy.control_host, name)
    for _ in range(2):
        await asyncio.to_thread(undo.undo, 5.0)
        assert (await proxy.control.status())["rules"] == []


async def test_a_driver_speaks_to_the_control_address(proxy: Running) -> None:
    async with AsyncMongoClient[dict[str, Any]](proxy.control_host, directConnection=True) as client:
        status = await client.admin.command("proxyStatus")
    assert [link["name"] for link in status["links"]] == ["a", "b"]


async def test_uvloop_serves_alike_or_says_that_it_is_not_there(proxy: Running) -> None:
    async with proxy_before({"a": NOWHERE}, None, "--uvloop") as running:
        with pytest.raises(ConnectionLost):
            await running.raw("a")
        assert isinstance(running.control, ProxyControl)


def test_it_imports_nothing_of_a_driver() -> None:
    """It is started before any member and must be there in a blink."""
    code = "import sys, clusters.wire.proxy.__main__; sys.exit(any(one == 'pymongo' for one in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
