"""A line to somebody who accepts and never answers, as a frozen member does: asked once, and left in peace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from clusters.wire.connection import ConnectionLost
from clusters.wire.message import Message, encode, next_request_id
from harness.watchers.line import PATIENCE, Line, Lines, StillWaiting, paused


class Peer:
    """Speaks the wire's framing; answers as long as `answering` is set."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[str] = []
        self.answering = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.host = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readexactly(4)
                message = Message(head + await reader.readexactly(int.from_bytes(head, "little") - 4))
                self.asked.append(message.command)
                await self.answering.wait()
                writer.write(encode({"ok": 1}, request_id=next_request_id(), response_to=message.request_id))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield peer
    peer.answering.set()
    for writer in peer.writers:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_question_without_an_answer_is_kept_and_not_asked_again(peer: Peer) -> None:
    line = Line(peer.host)
    with pytest.raises(StillWaiting, match="no answer"):
        await line.ask("admin", {"ping": 1}, patience=0.05)
    for _ in range(3):
        assert line.busy
        with pytest.raises(StillWaiting, match="owes an answer"):
            await line.ask("admin", {"ping": 1}, patience=0.05)
    assert (peer.connections, peer.asked) == (1, ["hello"])
    peer.answering.set()
    assert await line.answered(patience=2)
    assert (peer.connections, peer.asked) == (1, ["hello", "ping"])
    assert (await line.ask("admin", {"ping": 1}, patience=2))["ok"] == 1
    assert peer.connections == 1
    await line.close()


async def test_a_broken_line_dials_again(peer: Peer) -> None:
    peer.answering.set()
    line = Line(peer.host)
    await line.ask("admin", {"ping": 1}, patience=2)
    peer.answering.clear()
    with pytest.raises(StillWaiting):
        await line.ask("admin", {"ping": 1}, patience=0.05)
    peer.writers[0].close()
    assert await line.answered(patience=2)
    peer.answering.set()
    assert (await line.ask("admin", {"ping": 1}, patience=2))["ok"] == 1
    assert peer.connections == 2
    await line.close()


async def test_nobody_there_is_said_at_once() -> None:
    line = Line("127.0.0.1:1")
    with pytest.raises(ConnectionLost, match=r"cannot connect to 127\.0\.0\.1:1"):
        await line.ask("admin", {"ping": 1}, patience=2)
    assert not line.busy
    await line.close()


async def test_closing_does_not_wait_for_the_answer(peer: Peer) -> None:
    line = Line(peer.host)
    with pytest.raises(StillWaiting):
        await line.ask("admin", {"ping": 1}, patience=0.05)
    start = time.monotonic()
    await line.close()
    assert time.monotonic() - start < 0.5


async def test_of_several_polled_one_that_owes_an_answer_is_lost_once_and_holds_up_no_other(peer: Peer) -> None:
    frozen = await asyncio.start_server(lambda _reader, writer: held.append(writer), "127.0.0.1", 0)
    held: list[asyncio.StreamWriter] = []
    peer.answering.set()
    lines = Lines({"well": peer.host, "frozen": f"127.0.0.1:{frozen.sockets[0].getsockname()[1]}"})
    asked: list[str] = []
    lost: list[str] = []

    async def poll(name: str, line: Line) -> None:
        asked.append(name)
        await line.ask("admin", {"ping": 1}, patience=0.05)

    async def pause(_name: str) -> None:
        await asyncio.sleep(0.01)

    watching = asyncio.create_task(lines.watch(poll, lost.append, pause))
    await asyncio.sleep(PATIENCE / 4)
    watching.cancel()
    await asyncio.wait([watching])
    await lines.close()
    for writer in held:
        writer.close()
    frozen.close()
    await frozen.wait_closed()
    assert asked.count("well") > 3
    assert asked.count("frozen") == 1
    assert lost == ["frozen"]


async def test_a_pause_is_cut_short_when_something_gets_urgent() -> None:
    start = time.monotonic()
    await paused(0.3, 0.02, lambda: False)
    usual = time.monotonic() - start
    await paused(60.0, 0.02, lambda: time.monotonic() - start > usual + 0.1)
    assert usual >= 0.3
    assert time.monotonic() - start < 10
