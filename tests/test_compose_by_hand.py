"""compose/README.md, done: the very commands that stand there, with the built image, and what they leave.

They run in a copy of compose/, in which all that is made bears a token: if this process is killed the guardian removes
it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure

from clusters import local, ports
from clusters.binaries import find_mongod, find_mongos
from clusters.compose import command, engine, files, image, networks, render
from clusters.guard import RemoveContainers, new_token

pytestmark = [pytest.mark.docker, pytest.mark.live, pytest.mark.timeout(420)]

COMPOSE: Final = Path(__file__).parent.parent / "compose"
DEADLINE: Final = 200.0
"""Seconds for one block of commands; with fifty processes at work beside it the longest took 60."""
WRITTEN_DEADLINE: Final = 60.0
"""Seconds until a set that has had its elections takes a write."""
BLOCK: Final = re.compile(r"^```sh built\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ByHand:
    """A place to run the README's commands in, under project names of its own."""

    directory: Path
    environment: dict[str, str]
    image: str
    token: str

    def commands(self, about: str) -> list[str]:
        """Those of the one block that speaks of this, as they are to be run here."""
        (block,) = (one for one in BLOCK.findall((self.directory / "compose/README.md").read_text()) if about in one)
        return [self._here(line) for line in block.splitlines()]

    def run(self, *commands: str) -> str:
        """Their output. Fails where one of them does."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
            cwd=self.directory,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def direct(self, member: str, **options: Any) -> MongoClient[dict[str, Any]]:
        """A client of one member, by the port that is published."""
        port = int(self.environment[f"PORT_{member.upper().replace('-', '_')}"])
        return MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=20_000, **options)

    def written_to_all(self, name: str) -> None:
        """Whoever is primary of this set of three writes, and all have it. After a second without a heartbeat another
        one is elected, so that on a busy machine it need not be the first, nor the same for long."""
        note = {"appendOplogNote": 1, "data": {}, "writeConcern": {"w": 3, "wtimeout": 30_000}}
        end = time.monotonic() + WRITTEN_DEADLINE
        while True:
            for index in range(3):
                with self.direct(f"{name}-{index}") as client, contextlib.suppress(NotPrimaryError, AutoReconnect):
                    if client.admin.command("hello")["isWritablePrimary"]:
                        assert client.admin.command(note)["ok"] == 1
                        return
            assert time.monotonic() < end, f"no member of {name} was primary for as long as one write takes"
            time.sleep(0.2)

    def _here(self, line: str) -> str:
        line = re.sub(r"^docker compose -p (\w+)", rf"{shlex.join(command.command())} -p \1-{self.token[:6]}", line)
        line = re.sub(r"^python (\S+) (\w+)", rf"{shlex.quote(sys.executable)} \1 \2-{self.token[:6]}", line)
        return re.sub(r"mongofault/mongod:[\d.]+", self.image, line)


@pytest.fixture
async def by_hand(docker_image: str, tmp_path: Path) -> AsyncIterator[ByHand]:
    token = new_token()
    shutil.copytree(COMPOSE, tmp_path / "compose", ignore=shutil.ignore_patterns("keyfile", "password"))
    for topology in files.TOPOLOGIES:
        _as_tests_need_it(tmp_path / f"compose/{topology}.yml", token)
    members = [spec.name for topology, _ in files.TOPOLOGIES.values() for spec in topology.members()]
    chosen = ports.choose(len(members))
    published = {
        f"PORT_{name.upper().replace('-', '_')}": str(port) for name, port in zip(members, chosen, strict=True)
    }
    ledger, guardian = local.open_ledger(f"tests-by-hand-{token[:6]}")
    ledger.open(RemoveContainers(token), title="containers by hand")
    try:
        yield ByHand(tmp_path, {**published, "MONGO_PREFIX": networks.free_prefix()}, docker_image, token)
    finally:
        await local.take_down(ledger, guardian)
        ports.give_back(chosen)


def test_the_sets_of_the_sharded_file_come_up_as_the_readme_says_and_can_be_initiated_twice(by_hand: ByHand) -> None:
    commands = by_hand.commands("up -d config-0")
    assert by_hand.run(*commands).splitlines()[-1] == f"127.0.0.1:{by_hand.environment['PORT_SHARD0_0']}"
    again = by_hand.run(*(one for one in commands if "initiate.py" in one))
    assert again.count("has a primary") == 3
    for name in ("config", "shard0", "shard1"):
        with by_hand.direct(f"{name}-0") as client:
            hello = client.admin.command("hello")
            assert hello["setName"] == name
            assert hello["hosts"] == [f"{name}-{index}:27017" for index in range(3)]
        by_hand.written_to_all(name)
    with by_hand.direct("shard1-2") as client:
        assert client.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"]


def test_a_set_with_authentication_keeps_its_data_over_restarts_and_a_new_start(by_hand: ByHand) -> None:
    *start, restart = by_hand.commands("replicaset-auth.yml up -d")
    by_hand.run(*start)
    initiate = next(one for one in start if "initiate.py" in one)
    environment, up = start[0], next(one for one in start if " up -d" in one)
    assert by_hand.run(initiate, initiate).count("rs0 has a primary") == 2
    password = (by_hand.directory / "compose/secrets/password").read_text().strip()
    prefix = by_hand.environment["MONGO_PREFIX"]
    members = ",".join(f"{prefix}.{number}" for number in (11, 12, 13))
    uri = f"mongodb://{members}/?replicaSet=rs0&serverSelectionTimeoutMS=60000"

    def kept() -> int:
        with MongoClient[dict[str, Any]](uri, username="admin", password=password) as client:
            return client["shop"]["orders"].count_documents({})

    with MongoClient[dict[str, Any]](uri, username="admin", password=password, w="majority") as client:
        client["shop"]["orders"].insert_one({"n": 1})
    with MongoClient[dict[str, Any]](uri) as stranger, pytest.raises(OperationFailure, match="requires authentication"):
        stranger["shop"]["orders"].find_one()
    by_hand.run(environment, restart)
    assert kept() == 1
    remove = next(one for one in by_hand.commands("down --volumes") if "replicaset" in one)
    by_hand.run(environment, remove.replace(" --volumes --remove-orphans --timeout 0", " --timeout 1"), up)
    assert kept() == 1
    by_hand.run(remove)
    assert not [one for kind in engine.KINDS for one in engine.bearing(by_hand.token, kind)]


@pytest.mark.parametrize("file", files.TOPOLOGIES)
@pytest.mark.parametrize("over", [(), ("mongosh",), ("mongosh", "auth")])
def test_compose_takes_each_file_with_what_is_laid_over_it(
    file: str, over: tuple[str, ...], docker_image: str, tmp_path: Path
) -> None:
    names = [f"{file}.yml", *(f"{file}-{one}.yml" for one in over)]
    arguments = [one for name in names for one in ("-f", str(COMPOSE / name))]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MONGO_", "PORT_"))}
    done = subprocess.run(
        [*command.command(), *arguments, "config"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert {service["image"] for service in services.values()} == {"mongo:8.0"}
    assert ("initiate" in services) == bool(over)
    services.pop("initiate", None)
    for service in services.values():
        assert ("healthcheck" in service) == ("mongosh" in over)
        assert ("secrets" in service) == ("auth" in over)


def test_the_built_image_holds_a_server_that_runs_and_a_shell(docker_image: str) -> None:
    said = engine.output(
        docker_image, ["sh", "-c", "mongod --version && id -un mongodb && ls -d /data/db /tmp"], new_token()
    )
    assert said is not None
    assert f"db version v{docker_image.partition(':')[2]}" in said
    assert said.splitlines()[-3:] == ["mongodb", "/data/db", "/tmp"]


def test_an_image_without_a_shell_holds_the_same_server_and_has_a_name_of_its_own(docker_image: str) -> None:
    there = engine.image(f"{docker_image}-no-shell") is not None
    tag = image.build(find_mongod(), find_mongos(), shell=False)
    try:
        assert tag == f"{docker_image}-no-shell"
        assert "db version v" in (engine.output(tag, ["mongod", "--version"], new_token()) or "")
        assert engine.output(tag, ["sh", "-c", "true"], new_token()) is None
    finally:
        if not there:
            with contextlib.closing(engine.connect()) as client:
                client.images.remove(tag)


def test_an_image_that_is_there_is_not_built_again(docker_image: str) -> None:
    built = []
    for _ in range(2):
        assert image.build(find_mongod(), find_mongos()) == docker_image
        found = engine.image(docker_image)
        assert found is not None
        built.append(found["Id"])
    assert built[0] == built[1]


def _as_tests_need_it(file: Path, token: str) -> None:
    """All that is made of this file is to bear the token. A member that is told to end does so at once, and another one
    is elected soon: else the one takes 15 s, and the other 10."""
    document = yaml.safe_load(file.read_text())
    labels = {engine.TOKEN: token}
    for service in document["services"].values():
        service["labels"].update(labels)
        if "--replSet" in service["command"]:
            service["command"] += ["--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"]
        if render.SET in service["labels"]:
            wanted = json.loads(service["labels"][render.SET])
            wanted["settings"]["electionTimeoutMillis"] = 1000
            service["labels"][render.SET] = json.dumps(wanted)
    for network in document["networks"].values():
        network["labels"] = labels
    document["volumes"] = {name: {"labels": labels} for name in document["volumes"]}
    file.write_text(render.dump(document))
