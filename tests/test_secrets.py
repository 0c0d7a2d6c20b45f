"""A password goes to the cluster and nowhere else: not into records, logs, output, process lists; not into an error."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from aftermath import Place, wait_for
from clusters import admin, local, ownership
from clusters.cluster import entrances
from clusters.local import OwnCluster
from clusters.topology import Settings, single_replica_set
from harness import cli, exits

pytestmark = pytest.mark.live

USER, PASSWORD = "ann", "pa%ss@w0rd"
WRITTEN = "pa%25ss%40w0rd"
"""The same as a URI has it."""
WRONG = "wr0ngw0rd"


@pytest.fixture(scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OwnCluster]:
    """A replica set with authorization, and in it nothing of ours but its processes."""
    key = tmp_path_factory.mktemp("key") / "key"
    key.write_text("c2VjcmV0" * 8)
    key.chmod(0o600)
    settings = Settings(heartbeat_ms=500, election_timeout_ms=1000)
    cluster = await local.bring_up(single_replica_set(2, settings=settings), "tests-locked")
    try:
        async with cluster.client() as client:
            await client.admin.command("createUser", USER, pwd=PASSWORD, roles=["root"])
            await client.drop_database(ownership.DATABASE)
        members = cluster.members.values()
        await asyncio.gather(*(member.kill() for member in members))
        for member in members:
            member.command += ["--auth", "--keyFile", str(key)]
        await asyncio.gather(*(member.start() for member in members))
        async with cluster.client(username=USER, password=PASSWORD) as client:
            await client.admin.command("ping")
        yield cluster
    finally:
        await cluster.down()


SCRIPT = """
import json, sys
from harness import cli
for arguments in json.loads(sys.argv[1]):
    print("exit", cli.run(arguments), flush=True)
"""


@dataclass
class Commands:
    """Commands in a process of its own, at a terminal; all that they say is kept."""

    place: Place
    uri: str
    said: str = ""
    seen_in_processes: bool = False

    def run(self, *wanted: list[str], typed: str = "", **environment: str) -> list[int]:
        """Their exit codes."""
        terminal, person = pty.openpty()
        os.write(person, typed.encode())
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, json.dumps(wanted)],
            cwd=self.place.root,
            env={**self.place.environment, **environment},
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            with self.watching():
                out, _ = process.communicate(timeout=120)
        finally:
            process.kill()
            os.close(terminal)
            os.close(person)
        self.said += out
        return [int(line.split()[1]) for line in out.splitlines() if line.startswith("exit ")]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look whether any process of the machine shows a password."""
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,))
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, ended: threading.Event) -> None:
        """Every process of the machine, as `ps` shows it, again and again."""
        while not ended.wait(0.05):
            for one in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    shown = one.read_bytes()
                except OSError:
                    continue
                self.seen_in_processes |= any(secret.encode() in shown for secret in (PASSWORD, WRITTEN, WRONG))

    def written(self) -> bytes:
        """All that lies in the places where a command may write."""
        return b"".join(one.read_bytes() for one in sorted(self.place.root.rglob("*")) if one.is_file())


@pytest.fixture
def commands(locked: OwnCluster, tmp_path: Path) -> Iterator[Commands]:
    place = Place(tmp_path)
    yield Commands(place, f"mongodb://{USER}:{WRITTEN}@{','.join(entrances(locked))}/?replicaSet=rs0")
    place.end()


@pytest.mark.slow
def test_no_command_lets_a_password_out(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("uris")
    right, wrong, unescaped = (str(directory / name) for name in ("right", "wrong", "unescaped"))
    Path(right).write_text(commands.uri)
    Path(wrong).write_text(commands.uri.replace(WRITTEN, WRONG))
    Path(unescaped).write_text(commands.uri.replace(WRITTEN, PASSWORD))
    with_it = commands.run(
        ["attach"],
        ["adopt", "--name", "locked"],
        ["adopt", "--name", "locked"],
        ["status", "locked", "--json"],
        ["ls"],
        ["attach", "--uri-file", wrong],
        ["attach", "--uri-file", unescaped],
        typed="rs9\nrs0\n",
        MONGODB_URI=commands.uri,
        MONGOFAULT_DEBUG="1",
    )
    written = commands.written()
    without = commands.run(["status", "locked"], ["release", "locked", "--uri-file", right])
    assert with_it == [0, exits.REFUSED, 0, 0, 0, exits.REFUSED, exits.REFUSED], commands.said
    assert without == [exits.REFUSED, 0], commands.said
    for said in (
        "'rs9' is not 'rs0': not adopted",
        "cluster locked is adopted",
        '"heartbeats": "yes"',
        "does not let us in: 18 AuthenticationFailed",
        "cluster 'locked' wants a password, which is written down nowhere",
        "cluster locked is released",
    ):
        assert said in commands.said
    assert b"ann:***@" in written
    for secret in (PASSWORD, WRITTEN, WRONG):
        assert secret not in commands.said
        assert secret.encode() not in written
    assert not commands.seen_in_processes
    assert b"ann" not in commands.written()


@pytest.fixture
def uri_file(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("uris") / "right"
    file.write_text(commands.uri)
    return str(file)


LOCK = ("fault", "pause-replication", "--fault-option", "how=fsyncLock", "--on", "secondary", "--hold", "60s")


@pytest.mark.slow
def test_a_guardian_heals_where_a_password_is_wanted_and_does_not_show_it(
    commands: Commands, locked: OwnCluster, uri_file: str
) -> None:
    assert commands.run(["adopt", "--uri-file", uri_file], typed="rs0\n") == [0], commands.said
    with commands.watching():
        process = commands.place.start(*LOCK, "--uri-file", uri_file)
        commands.said += "".join(wait_for(["held for"], process, 60))
        assert asyncio.run(any_locked(locked))
        written = commands.written()
        assert b"fsync unlock" in written
        process.kill()
        asyncio.run(healed(locked))
    assert commands.run(["release", "--uri-file", uri_file]) == [0], commands.said
    assert PASSWORD not in commands.said
    assert PASSWORD.encode() not in written
    assert WRITTEN.encode() not in written
    assert not commands.seen_in_processes


@pytest.mark.slow
def test_heal_by_hand_asks_for_the_password_that_nobody_wrote_down(
    commands: Commands, locked: OwnCluster, uri_file: str
) -> None:
    assert commands.run(["adopt", "--uri-file", uri_file], typed="rs0\n") == [0], commands.said
    process = commands.place.start(*LOCK, "--uri-file", uri_file)
    wait_for(["held for"], process, 60)
    # The owner, and the guardian before it can do anything.
    for pid in commands.place.processes():
        os.kill(pid, signal.SIGSTOP)
    for pid in commands.place.processes():
        os.kill(pid, signal.SIGKILL)
    assert commands.run(["heal"]) == [exits.UNKNOWN]
    assert "wants a password, which is written down nowhere: put the URI into MONGODB_URI" in commands.said
    assert asyncio.run(any_locked(locked))
    assert commands.run(["heal"], MONGODB_URI=commands.uri) == [0], commands.said
    assert not asyncio.run(any_locked(locked))
    assert commands.run(["release", "--uri-file", uri_file]) == [0], commands.said


async def any_locked(cluster: OwnCluster) -> bool:
    """Whether a member is fsyncLocked."""
    answers = []
    for member in cluster.members.values():
        async with member.client(username=USER, password=PASSWORD) as client:
            answers.append((await client.admin.command("currentOp", opid=-1)).get("fsyncLock"))
    return any(answers)


async def healed(cluster: OwnCluster) -> None:
    async def unlocked() -> bool:
        return not await any_locked(cluster)

    await admin.until("the guardian has unlocked the secondary", unlocked, deadline=20)


def test_on_the_command_line_a_password_is_refused_and_not_repeated(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["attach"], ["adopt"], ["release"], ["fault", "freeze", "--on", "one", "--uri"]):
        assert cli.run([*arguments, commands.uri]) == exits.REFUSED
        assert "a password on the command line is seen by all who look at ps" in (said := capsys.readouterr().err)
        assert WRITTEN not in said
    for arguments in (["attach", "--such"], ["attach", "mongodb://h/"]):
        assert cli.run([*arguments, commands.uri]) == exits.REFUSED
        assert "ann:***@" in (said := capsys.readouterr().err) or "--such" in said
        assert WRITTEN not in said
