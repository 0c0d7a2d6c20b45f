"""`mongofault watch` on servers that are well: what it asks, what it costs one that does not answer, what it leaves."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aftermath import Place
from clusters import admin, ports
from clusters.cluster import Cluster, entrances, of_set, primary_of
from clusters.local import OwnCluster
from clusters.uri import parse
from harness import exits
from harness.watchers.line import APP_NAME
from harness.watching import seats
from harness.watching.looking import Looks
from harness.watching.seats import find
from watch_parts import DEADLINE, consuming, one_look

pytestmark = pytest.mark.live


async def commands_seen(cluster: Cluster) -> tuple[dict[str, int], dict[str, int]]:
    """Of its only member: how often each command came, and the operations it counted."""
    async with admin.connected(*entrances(cluster)) as connection:
        status = await connection.command("admin", {"serverStatus": 1})
    commands = status["metrics"]["commands"]
    return {name: int(one["total"]) for name, one in commands.items() if isinstance(one, dict) and "total" in one}, {
        name: int(status["opcounters"][name]) for name in ("insert", "update", "delete")
    }


async def test_what_is_healthy_is_called_so_and_a_stranger_s_stream_is_seen(replica_set: OwnCluster) -> None:
    async with consuming(replica_set, "healthy", comment="billing"):
        picture = await one_look(replica_set.uri)
    assert not picture.wrong
    assert picture.unseen == {}
    (name,) = [one for one in picture.streams if one.endswith("(billing)")]
    assert name.startswith("app.healthy ")
    assert picture.streams[name].fares == "open"


async def test_it_reads_and_does_nothing_else(proxied: OwnCluster) -> None:
    before, counted = await commands_seen(proxied)
    for _ in range(2):
        await one_look(proxied.uri)
    after, counted_after = await commands_seen(proxied)
    asked = {name: count - before[name] for name, count in after.items() if count != before[name]}
    assert asked.pop("serverStatus") == 1
    # One $currentOp a look; the rest finds out, at the start, what cluster it is.
    assert asked.pop("aggregate") == 2
    assert set(asked) == {"hello", "replSetGetConfig", "shardingState", "buildInfo", "getParameter"}
    assert counted_after == counted


async def test_a_member_that_does_not_answer_costs_its_own_deadline_and_the_others_are_seen(
    replica_set: OwnCluster,
) -> None:
    primary = await primary_of(replica_set, "rs0")
    frozen = next(one for one in of_set(replica_set, "rs0") if one.name != primary.name)
    where = await find(parse(replica_set.uri))
    looks = Looks(where, every=1.0, patience=3.0)
    loop = asyncio.get_running_loop()
    frozen.freeze()
    try:
        began = loop.time()
        await looks.once()
        took = loop.time() - began
        # What a frozen member cannot say of the cluster another one is asked.
        again = await find(parse(replica_set.uri))
    finally:
        frozen.thaw()
        await looks.close()
    assert 3.0 <= took < 6.0
    assert set(looks.readings) == {one.name for one in where.members} - {frozen.name}
    assert looks.unseen[frozen.name].owed
    assert again.hosts == where.hosts


async def test_a_cluster_whose_members_have_changed_is_found_anew(
    replica_set: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "LOOKED_AGAIN", 0.05)
    uri = parse(replica_set.uri)
    now = await find(uri)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await seats.found_anew(uri, None, now)
    async with asyncio.timeout(DEADLINE):
        found = await seats.found_anew(uri, None, replace(now, seats=now.seats[:-1]))
    assert found.hosts == now.hosts


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.end()


async def watchers_of(cluster: Cluster) -> int:
    """Connections of watches, busy and idle, that its members have."""
    stages = [{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$match": {"appName": APP_NAME}}]
    found = 0
    for member in of_set(cluster, "rs0"):
        async with admin.connected(member.host) as connection:
            ask = {"aggregate": 1, "pipeline": stages, "cursor": {}, "$readPreference": {"mode": "nearest"}}
            found += len((await connection.command("admin", ask))["cursor"]["firstBatch"])
    return found


def scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {one.name: one.value for one in samples if one.labels in ({}, {"state": "seen"})}


async def test_a_watch_serves_its_metrics_and_leaves_nothing_when_it_is_killed(
    replica_set: OwnCluster, place: Place
) -> None:
    (port,) = ports.choose(1)
    ports.give_back([port])
    process = place.start("watch", "--uri", replica_set.uri, "--interval", "0.2s", "--metrics", str(port))
    assert process.stdout is not None
    assert "3 members and routers" in await asyncio.to_thread(process.stdout.readline)

    async def all_seen() -> bool:
        return await asyncio.to_thread(scraped, port) == {
            "mongofault_stream_silent_seconds": 0, "mongofault_write_copies": 0, "mongofault_members": 3,
        }  # fmt: skip

    await admin.until("the metrics tell of three members", all_seen, deadline=DEADLINE)
    assert await watchers_of(replica_set) > 0
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.wait)

    async def none_left() -> bool:
        return await watchers_of(replica_set) == 0

    await admin.until("its connections are gone", none_left, deadline=DEADLINE)
    assert place.processes() == {}
    assert [one for one in place.root.rglob("*") if one.is_file()] == []


async def read_until(terminal: int, wanted: str) -> str:
    """What a terminal shows, up to and with the text that is wanted."""
    shown = ""

    async def there() -> bool:
        nonlocal shown
        with suppress(BlockingIOError):
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
        return wanted in shown

    await admin.until(f"the terminal shows {wanted!r}; it shows {shown[-500:]!r}", there, deadline=DEADLINE)
    return shown


async def test_on_a_terminal_it_has_a_screen_and_ctrl_c_ends_it_without_a_word(
    replica_set: OwnCluster, place: Place
) -> None:
    terminal, person = pty.openpty()
    fcntl.ioctl(person, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(terminal, False)
    environment = {name: value for name, value in place.environment.items() if name not in ("COLUMNS", "LINES")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "harness", "watch", "--uri", replica_set.uri),
        cwd=place.root, env={**environment, "TERM": "xterm-256color"}, stdin=person, stdout=person, stderr=person,
    )  # fmt: skip
    os.close(person)
    try:
        shown = await read_until(terminal, "3 answer")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(DEADLINE):
            code = await process.wait()
        with suppress(OSError):  # as a terminal says that nobody is on its other side any more
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
        os.close(terminal)
    assert code == exits.INTERRUPTED
    assert "watching rs0" in shown
    assert "\x1b[7m watch " in shown
    assert "heal" not in shown
    assert "Traceback" not in shown


async def test_it_ends_when_nobody_reads_its_lines_any_more(replica_set: OwnCluster, place: Place) -> None:
    process = place.start("watch", "--uri", replica_set.uri, "--interval", "0.2s", "--json")
    assert process.stdout is not None
    look = json.loads(await asyncio.to_thread(process.stdout.readline))
    assert (look["kind"], look["not_seen"]) == ("look", {})
    process.stdout.close()
    assert await asyncio.to_thread(process.wait, DEADLINE) == exits.AS_EXPECTED
