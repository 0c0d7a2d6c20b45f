"""`mongofault watch` on real servers: what it names, what it costs one that does not answer, what it leaves behind."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pymongo.read_preferences import Secondary

from aftermath import Place
from clusters import admin, local, ports
from clusters.cluster import Cluster, entrances, of_set, primary_of
from clusters.local import LocalCluster, OwnCluster
from clusters.topology import Settings, single_replica_set
from clusters.uri import parse
from harness import exits, stage
from harness.drivers.writers import Document
from harness.history import Event
from harness.watchers.line import APP_NAME
from harness.watching import telling
from harness.watching.judging import Picture
from harness.watching.looking import Looks
from harness.watching.seats import find
from harness.watching.watch import Pace, Watch

pytestmark = pytest.mark.live

DEADLINE = 60.0
TAG = {"looks": "here"}


async def one_look(uri: str, *, patience: float = 20.0) -> Picture:
    pace = Pace(every=1.0, past=3.0, patience=patience)
    return await Watch(await find(parse(uri)), pace, lambda _picture, _events: None).once()


@asynccontextmanager
async def consuming(cluster: Cluster, collection: str, **options: Any) -> AsyncIterator[None]:
    """A stream that somebody reads."""
    async with cluster.client() as client:
        preference = options.pop("read_preference", None)
        stream = await client.app.get_collection(collection, read_preference=preference).watch(**options)

        async def read() -> None:
            while True:
                await stream.try_next()

        task = asyncio.create_task(read())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


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
    seats = await find(parse(replica_set.uri))
    looks = Looks(seats, every=1.0, patience=3.0)
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
    assert set(looks.readings) == {one.name for one in seats.members} - {frozen.name}
    assert looks.unseen[frozen.name].owed
    assert again.hosts == seats.hosts


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


@pytest.fixture
async def stalled(sharded: LocalCluster) -> AsyncIterator[tuple[str, str]]:
    """Streams on a shard's member A whose lookups go to B, which replicates no more: the names of A and B."""
    documents = [
        Document(shard.name, shard.name, {"_id": shard.name, "region": region})
        for region, shard in enumerate(sharded.topology.shards)
    ]
    secondaries = {}
    for shard in sharded.topology.shards:
        primary = await primary_of(sharded, shard.name)
        secondaries[shard.name] = [one.name for one in of_set(sharded, shard.name) if one.name != primary.name]
    a, b = secondaries["shard0"]
    before = await stage.current_tags(sharded, [name for names in secondaries.values() for name in names])
    await stage.make_namespace(sharded, "app.hung", documents)
    await stage.set_tags(sharded, {names[0]: TAG for names in secondaries.values()})
    options = {"read_preference": Secondary([TAG]), "full_document": "updateLookup"}
    try:
        async with (
            consuming(sharded, "hung", **options),
            consuming(sharded, "hung", comment="mine", **options),
            sharded.client() as client,
        ):
            moved = {a: {}, b: TAG}
            await stage.set_tags(sharded, moved)
            await stage.tags_seen(sharded, sharded.members[a], moved)
            async with sharded.members[b].client() as direct:
                await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="alwaysOn")
                try:
                    await client.app.hung.update_one(documents[0].filter, {"$set": {"seq": 1}})
                    yield a, b
                finally:
                    sharded.members[b].thaw()
                    await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="off")
    finally:
        await stage.set_tags(sharded, before)
        await stage.recovered(sharded)
        async with sharded.client() as client:
            await client.drop_database("app")


@pytest.mark.slow
async def test_a_hung_stream_is_named_within_one_look_with_whom_it_waits_for(
    sharded: LocalCluster, stalled: tuple[str, str], place: Place
) -> None:
    a, b = stalled

    async def hang() -> bool:
        return (await one_look(sharded.uri)).counts["silent"] == 2

    await admin.until("both streams hang", hang, deadline=DEADLINE)
    # From another process, as somebody would on the day.
    once = await asyncio.to_thread(place.run, "watch", "--uri", sharded.uri, "--once", "--deadline", "20s")
    assert once.returncode == exits.NOT_AS_EXPECTED, once
    assert f"getMore on {a} runs" in once.stdout
    assert f"waits for {b}" in once.stdout
    assert "(mine)" in once.stdout
    assert f"look at {b} ({sharded.members[b].host})" in once.stdout
    assert f'mongosh "mongodb://{sharded.members[a].host}/?directConnection=true"' in once.stdout
    assert "killOp: 1, op: " in once.stdout
    # And where B cannot be asked at all.
    sharded.members[b].freeze()
    picture = await one_look(sharded.uri, patience=3.0)
    assert list(picture.unseen) == [b]
    assert {one.waits_for for one in picture.silent.values()} == {b}
    assert all(f"2 in use towards {b}" in str(one.known_by) for one in picture.silent.values())
    await killed_as_advised(once.stdout, sharded.members[a].host)

    async def freed() -> bool:
        return not (await one_look(sharded.uri, patience=1.0)).hung

    await admin.until("what was killed hangs no more", freed, deadline=DEADLINE)


async def killed_as_advised(said: str, host: str) -> None:
    """Kill what a watch says is to be killed, where it says."""
    found = re.findall(r'mongosh "mongodb://(\S+)/\?directConnection=true" --eval "(.*?)"', said)
    assert [where for where, _ in found] == [host]
    opids = re.findall(r"killOp: 1, op: (\d+)", found[0][1])
    assert opids
    async with admin.connected(host) as connection:
        for opid in opids:
            await connection.command("admin", {"killOp": 1, "op": int(opid)})


@pytest.mark.slow
async def test_copies_of_one_write_are_counted_and_end_by_the_command_that_is_advised(
    replica_set: OwnCluster,
) -> None:
    primary = await primary_of(replica_set, "rs0")
    seats = await find(parse(replica_set.uri))
    raised: list[Event] = []
    pictures: list[Picture] = []

    def told(picture: Picture, events: Sequence[Event]) -> None:
        pictures.append(picture)
        raised.extend(events)

    async with replica_set.client() as client, client.start_session() as holder:
        orders = client.app.copies
        await orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        await holder.start_transaction()
        # Everybody else who writes to this document waits for the transaction, again and again.
        await orders.update_one({"_id": 1}, {"$set": {"held": True}}, session=holder)
        copies = [asyncio.create_task(orders.update_one({"_id": 1}, {"$inc": {"n": 1}})) for _ in range(3)]

        async def piled() -> bool:
            raised.clear()
            await Watch(seats, Pace(every=1.0, past=3.0, patience=20.0), told).once()
            return pictures[-1].wrong

        await admin.until("three copies are a pile", piled, deadline=DEADLINE)
        (alarm,) = raised
        assert (alarm.kind, alarm["copies"], pictures[-1].copies) == ("overlap.alarm", 3, 3)
        assert alarm["write"].startswith("update by {_id} #")
        advice = telling.Advice(seats.hosts).on(raised, pictures[-1])
        await killed_as_advised("\n".join(advice), primary.host)
        outcomes = await asyncio.gather(*copies, return_exceptions=True)
        assert {getattr(one, "code", None) for one in outcomes} == {11601}, outcomes
        await holder.abort_transaction()
        await client.app.drop_collection("copies")


@pytest.mark.slow
async def test_what_cannot_be_reached_is_seen_through_the_router(sharded: LocalCluster) -> None:
    seats = await find(parse(sharded.uri))
    lost = next(one for one in seats.seats if one.name == "shard0-0")
    elsewhere = [replace(one, host="127.0.0.1:1") if one is lost else one for one in seats.seats]
    looks = Looks(replace(seats, seats=elsewhere), every=1.0, patience=10.0)
    try:
        async with consuming(sharded, "through"):
            await looks.once()
            assert looks.unseen == {}
            assert any(leg.member == "shard0-0" for leg in looks.readings["shard0-0"].legs)
        # Nothing is told of it when nothing goes on in it, and that is not the same as having been seen.
        await looks.once()
        assert list(looks.unseen) == ["shard0-0"]
        assert "shard0-0" not in looks.readings
    finally:
        await looks.close()


USERS = {"monitor": ["clusterMonitor"], "nobody": []}


@pytest.fixture(scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnCluster]:
    """A replica set with authorization, and users of different rights."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text("c2VjcmV0" * 8)
    key.chmod(0o600)
    cluster = await local.bring_up(
        single_replica_set(2, settings=Settings(heartbeat_ms=500, election_timeout_ms=1000)), "tests-watched"
    )
    try:
        async with cluster.client() as client:
            for user, roles in USERS.items():
                await client.admin.command("createUser", user, pwd="s3cr3t", roles=roles)
        members = cluster.members.values()
        await asyncio.gather(*(member.kill() for member in members))
        for member in members:
            member.command += ["--auth", "--keyFile", str(key)]
        await asyncio.gather(*(member.start() for member in members))
        yield cluster
    finally:
        await cluster.down()


@pytest.mark.slow
@pytest.mark.parametrize(("user", "code"), [("monitor", exits.AS_EXPECTED), ("nobody", exits.UNKNOWN)])
async def test_the_role_cluster_monitor_suffices_and_less_is_said_to_be_too_little(
    locked: OwnCluster, place: Place, user: str, code: int
) -> None:
    address = place.root / "uri"
    address.write_text(f"mongodb://{user}:s3cr3t@{','.join(entrances(locked))}/?replicaSet=rs0")
    once = await asyncio.to_thread(place.run, "watch", "--once", "--uri-file", str(address), "--deadline", "20s")
    assert once.returncode == code, once
    assert "s3cr3t" not in once.stdout + once.stderr
    refused = "aggregate is refused: 13 Unauthorized"
    assert (refused in once.stderr) == (code == exits.UNKNOWN)


@pytest.mark.slow
async def test_members_with_users_of_their_own_are_asked_as_those(locked: OwnCluster) -> None:
    hosts = ",".join(entrances(locked))
    uri = parse(f"mongodb://nobody:s3cr3t@{hosts}/?replicaSet=rs0")
    looks = Looks(await find(uri, parse("mongodb://monitor:s3cr3t@elsewhere/")), every=1.0, patience=20.0)
    await looks.once()
    await looks.close()
    assert looks.unseen == {}
