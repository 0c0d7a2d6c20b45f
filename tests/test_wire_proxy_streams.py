"""Whatever rules come and go: what one side sent is what the other gets, in order; and the proxy does not grow."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import ports
from clusters.wire.message import HEADER, OP_MSG, encode, encode_body, encode_document
from clusters.wire.proxy.client import Direction, Kind, Rule
from clusters.wire.proxy.proxy import Proxy
from router_parts import until
from wire_proxy_parts import proxy_before

DEADLINE = 20.0


class Echo(asyncio.Protocol):
    """Sends back what it gets: with its own id in both places of the header, a request answers itself."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.back = True
        self.gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.back:
            self.transport.write(data)


def message(number: int, size: int, command: str = "find", flags: int = 0) -> bytes:
    body = encode_document({command: "c", "filler": b"x" * size, "$db": "d"})
    return encode_body(body, request_id=number, response_to=number, flags=flags)


HELLO = encode({"hello": 1, "client": {"application": {"name": "shop"}}, "$db": "admin"}, request_id=1, response_to=1)
SELECTED = {"commands": ("find",)}
LOSSLESS = [
    Rule(Kind.LATENCY, ms=2),
    Rule(Kind.LATENCY, ms=1, jitter_ms=1, direction=Direction.FROM, source=("app:shop",)),
    Rule(Kind.LATENCY, ms=1, jitter_ms=2, commands=("find",)),
    Rule(Kind.BANDWIDTH, bytes_per_second=5_000_000),
    Rule(Kind.BLACKHOLE),
    Rule(Kind.BLACKHOLE, direction=Direction.TO, source=("driver",)),
    Rule(Kind.BLACKHOLE, direction=Direction.FROM),
    Rule(Kind.BLACKHOLE, commands=("find",)),
    Rule(Kind.BLACKHOLE, commands=("insert",), direction=Direction.FROM),
    Rule(Kind.SWALLOW, commands=("never",)),
    Rule(Kind.REFUSE),
    Rule(Kind.CUT, commands=("never",)),
]
step = st.one_of(
    st.tuples(st.just("send"), st.sampled_from((0, 30, 5000, 300_000)), st.sampled_from(("find", "insert"))),
    st.tuples(st.just("send"), st.sampled_from((0, 30, 5000, 300_000)), st.sampled_from(("find", "insert"))),
    st.tuples(st.just("add"), st.sampled_from(LOSSLESS), st.none()),
    st.tuples(st.just("remove"), st.integers(0, 20), st.none()),
    st.tuples(st.just("tap"), st.booleans(), st.none()),
    st.tuples(st.just("wait"), st.sampled_from((0, 0.003)), st.none()),
)


@asynccontextmanager
async def between(target: Echo) -> AsyncIterator[tuple[Proxy, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A proxy in this process before `target`, and a connection through it."""
    chosen = ports.choose(2)
    behind, listen = chosen
    server = await asyncio.get_running_loop().create_server(lambda: target, "127.0.0.1", behind)
    proxy = Proxy({"a": (("127.0.0.1", listen), ("127.0.0.1", behind))}, {})
    await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listen)
    try:
        yield proxy, reader, writer
    finally:
        writer.close()
        proxy.close()
        server.close()
        ports.give_back(chosen)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await asyncio.wait_for(target.gone.wait(), DEADLINE)
        for _ in range(5):
            await asyncio.sleep(0)  # the proxy's own transports close in the next turns of the loop


async def play(steps: Sequence[tuple[str, Any, Any]], cuts: Sequence[int], junk: bytes) -> None:
    echo = Echo()
    async with between(echo) as (proxy, reader, writer):
        numbers, sizes = itertools.count(2), itertools.cycle(cuts)
        sent, rules = bytearray(), list[str]()

        async def send(raw: bytes) -> None:
            sent.extend(raw)
            while raw:
                cut = next(sizes)
                writer.write(raw[:cut])
                raw = raw[cut:]
                await asyncio.sleep(0)

        await send(HELLO)
        for what, value, more in steps:
            match what:
                case "send":
                    await send(message(next(numbers), value, more))
                case "add":
                    rules.append(proxy.add_rule(value.document()))
                case "remove" if rules:
                    proxy.remove_rule(rules.pop(value % len(rules)))
                case "tap":
                    proxy.switch_tap(value, [])
                case "wait":
                    await asyncio.sleep(value)
        await send(junk)
        for name in rules:
            proxy.remove_rule(name)
        async with asyncio.timeout(DEADLINE):
            back = await reader.readexactly(len(sent))
        assert echo.got == sent
        assert back == sent
        if not junk:  # A first message with junk behind it in one read is junk too.
            assert [one["app"] for one in proxy.status()["links"][0]["connections"]] == ["shop"]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(step, max_size=14),
    st.lists(st.sampled_from((1, 3, 17, 900, 100_000)), min_size=1, max_size=5),
    st.sampled_from((b"", b"\x16\x03\x01 no message at all")),
)
def test_nothing_is_lost_doubled_or_out_of_order(
    steps: list[tuple[str, Any, Any]], cuts: list[int], junk: bytes
) -> None:
    # Whole messages byte by byte take long and show no more than their first hundreds of bytes.
    large = any(one[0] == "send" and one[1] > 5000 for one in steps)
    asyncio.run(play(steps, [*cuts, 50_000] if large else cuts, junk))


@pytest.mark.parametrize("cut", [1, 3, 20, len(HELLO) - 1])
def test_a_first_message_in_pieces_says_who_connects_like_a_whole_one(cut: int) -> None:
    asyncio.run(play([("wait", 0.003, None), ("send", 30, "find")], [cut], b""))


async def test_bytes_that_are_no_messages_pass_and_are_counted() -> None:
    echo = Echo()
    async with between(echo) as (proxy, reader, writer):
        proxy.switch_tap(True, [])
        sent = b"\x16\x03\x01\x02\x00\x01\x00 a TLS client" * 10
        writer.write(sent)
        assert await asyncio.wait_for(reader.readexactly(len(sent)), DEADLINE) == sent
        (link,) = proxy.status()["links"]
        assert link["unreadable"] >= 1
        assert link["connections"] == [{"source": "unknown", "app": "", "driver": "", "open": 1}]


@pytest.mark.parametrize("raw", [
    HEADER.pack(26, 5, 5, OP_MSG) + b"\x00" * 4 + b"\x07" + b"\x00" * 5,
    encode_body(b"\x0b\x00\x00\x00\x55a\x00\x00\x00\x00\x00", request_id=5, response_to=5),
    HEADER.pack(40, 5, 5, 2012) + b"\x01" * 24,
], ids=["an unknown section", "no BSON", "compressed"])  # fmt: skip
async def test_a_message_that_cannot_be_read_passes_and_the_next_one_is_read(raw: bytes) -> None:
    echo = Echo()
    async with between(echo) as (proxy, reader, writer):
        proxy.switch_tap(True, [])
        sent = HELLO + raw + message(9, 10)
        writer.write(sent)
        assert await asyncio.wait_for(reader.readexactly(len(sent)), DEADLINE) == sent
        assert proxy.status()["links"][0]["unreadable"] == 1
        counted = proxy.tap.counts("command", {}, 10)["rows"]
        assert [(row["command"], row["total"], row["now"]) for row in counted] == [("hello", 1, 0), ("find", 1, 0)]


async def test_what_waits_to_be_read_goes_on_when_reading_ends() -> None:
    echo = Echo()
    async with between(echo) as (proxy, reader, writer):
        proxy.switch_tap(True, [])
        writer.write(HELLO)
        await asyncio.wait_for(reader.readexactly(len(HELLO)), DEADLINE)
        beginning = message(2, 10)[:10]
        echo.transport.write(beginning)
        await asyncio.sleep(0.05)  # passes also where the proxy has not got it yet
        proxy.switch_tap(False, [])
        assert await asyncio.wait_for(reader.readexactly(10), DEADLINE) == beginning
        proxy.switch_tap(True, [])
        writer.write(beginning)
        await asyncio.sleep(0.05)
        proxy.switch_tap(False, [])
        assert await asyncio.wait_for(reader.readexactly(10), DEADLINE) == beginning


async def test_a_request_without_a_reply_is_counted_and_never_in_flight() -> None:
    echo = Echo()
    echo.back = False
    async with between(echo) as (proxy, _reader, writer):
        proxy.switch_tap(True, [])
        sent = HELLO + message(2, 10, "insert", flags=2) * 2
        writer.write(sent)

        async def there() -> bool:
            return len(echo.got) == len(sent)

        await until(there, "the requests")
        (row,) = proxy.tap.counts("command", {"command": "insert"}, 10)["rows"]
        assert (row["total"], row["now"], row["most"], row["unanswered"]) == (2, 0, 1, 0)
        writer.close()

        async def gone() -> bool:
            return not proxy.status()["links"][0]["connections"]

        await until(gone, "the connection")
        (row,) = proxy.tap.counts("command", {"command": "hello"}, 10)["rows"]
        assert (row["now"], row["unanswered"]) == (0, 1)


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


@pytest.mark.parametrize(
    ("rule", "tapped"),
    [
        (None, False),
        (None, True),
        (Rule(Kind.LATENCY, ms=1), False),
        (Rule(Kind.BLACKHOLE), False),
    ],
    ids=["bytes", "tapped", "latency", "blackhole"],
)
async def test_a_reader_that_does_not_read_stops_the_sender_and_nothing_piles_up_between(
    rule: Rule | None, tapped: bool
) -> None:
    loop = asyncio.get_running_loop()
    (port,) = ports.choose(1)
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.setblocking(False)
        async with proxy_before({"a": f"127.0.0.1:{port}"}) as running:
            host, _, through = running.hosts["a"].rpartition(":")
            client = socket.create_connection((host, int(through)))
            client.sendall(HELLO)
            server, _address = await asyncio.wait_for(loop.sock_accept(listening), DEADLINE)
            assert await loop.sock_recv(server, len(HELLO)) == HELLO
            await running.control.tap(tapped)
            name = await running.control.add(rule) if rule is not None else None
            before = resident(running.process.pid)
            chunk = message(2, 250_000)
            sent = hashlib.sha256()
            total = await asyncio.to_thread(fill, client, chunk, sent)
            assert total < 40_000_000, "the sender is never stopped"
            assert resident(running.process.pid) - before < 8_000_000
            if name is not None:
                await running.control.remove(name)
            got = hashlib.sha256()
            left = total
            while left:
                piece = await asyncio.wait_for(loop.sock_recv(server, 1 << 20), DEADLINE)
                got.update(piece)
                left -= len(piece)
            assert got.digest() == sent.digest()
            client.close()
            assert await asyncio.wait_for(loop.sock_recv(server, 1), DEADLINE) == b""
            server.close()
    ports.give_back([port])


@pytest.mark.slow
async def test_many_open_connections_take_little_memory() -> None:
    """Half of the thousand that may take 50 MB."""
    (port,) = ports.choose(1)
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    async with proxy_before({"a": f"127.0.0.1:{port}"}) as running:
        before = resident(running.process.pid)
        host, _, listening = running.hosts["a"].rpartition(":")
        try:
            for _ in range(500):
                clients.append(await asyncio.open_connection(host, int(listening)))
                clients[-1][1].write(HELLO)
            for reader, _writer in clients:
                assert await asyncio.wait_for(reader.readexactly(len(HELLO)), DEADLINE) == HELLO
            assert await running.open_connections("a") == 500
            assert resident(running.process.pid) - before < 25_000_000
        finally:
            for _reader, writer in clients:
                writer.close()

        async def gone() -> bool:
            return await running.open_connections("a") == 0

        await until(gone, "all connections")
    server.close()
    ports.give_back([port])


def fill(client: socket.socket, chunk: bytes, sent: Any) -> int:
    """Send until nothing more is taken for a while, in whole messages but for the last; the bytes sent."""
    client.settimeout(0.5)
    total = 0
    while total < 50_000_000:
        view = memoryview(chunk)
        while view:
            try:
                took = client.send(view)
            except TimeoutError:
                return total
            sent.update(view[:took])
            total += took
            view = view[took:]
    return total
