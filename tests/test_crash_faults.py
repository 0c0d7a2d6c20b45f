"""Faults inside a server, their harness killed with -9: the guardian switches them off, or `heal` where it died too."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from aftermath import Place, healed_after_a_kill, kept_cluster, kill_with_guardian, wait_for
from harness import exits

pytestmark = pytest.mark.live

FORMS = ("rsSyncApplyStop", "stopReplProducer", "fsyncLock", "waitAfterCommandFinishesExecution")
RUNS = {
    "fsyncLock": ("--fault", "pause-replication", "--fault-option", "how=fsyncLock"),
    "rsSyncApplyStop": ("--fault", "pause-replication"),
    "stopReplProducer": ("--fault", "pause-replication", "--fault-option", "how=stopReplProducer"),
    "waitAfterCommandFinishesExecution": ("--fault", "hang-after-command"),
}
HEALED = 20.0
"""Seconds until all is off; a second or two on a machine of one's own."""

SCRIPT = """
import asyncio, sys
import faults
from clusters import kept, local
from clusters.cluster import of_set, primary_of
from faults.base import Injection, Site
from faults.options import parse

async def main(how):
    held = kept.hold("mine")
    cluster = kept.load("mine")
    ledger, guardian = local.open_ledger("breaks-mine", on=held)
    primary = await primary_of(cluster, "rs0")
    target = next(one for one in of_set(cluster, "rs0") if one is not primary)
    name = "hang-after-command" if how.startswith("wait") else "pause-replication"
    kind = faults.by_name(name)
    options = parse(name, kind.options, [] if how.startswith("wait") else ["how=" + how])
    fault = kind(Site(cluster, target, "injured.things"), options)
    await Injection(fault, ledger, guarded=guardian.alive).inject()
    print("broken", target.host, guardian.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(HOW))
"""


def on(host: str) -> list[str]:
    """What is on in a server, found with pymongo alone."""
    client: MongoClient[dict[str, Any]] = MongoClient(
        f"mongodb://{host}/", directConnection=True, socketTimeoutMS=5000, serverSelectionTimeoutMS=5000
    )
    with client:
        found = ["fsyncLock"] if client.admin.command("currentOp").get("fsyncLock") else []
        for name in FORMS:
            if name != "fsyncLock":
                state = client.admin.command({"getParameter": 1, f"failpoint.{name}": 1})[f"failpoint.{name}"]
                found += [name] if state["mode"] else []
    return found


def healed(host: str) -> list[str]:
    """What is still on at the end of the time allowed, or nothing as soon as it is so."""
    end = time.monotonic() + HEALED
    while (left := on(host)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With a replica set that outlives whoever breaks it."""
    with kept_cluster(tmp_path_factory.mktemp("crash"), "mine", "--replica-set", "--members", "3") as one:
        yield one


def broken(place: Place, how: str) -> tuple[subprocess.Popen[str], str, int]:
    """A process that has put the fault on and holds it; the member's host, the guardian's pid."""
    process = place.python(SCRIPT.replace("HOW", repr(how)))
    _, host, guardian = wait_for(["broken"], process, 60)[-1].split()
    assert on(host) == [how]
    return process, host, int(guardian)


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("rsSyncApplyStop", marks=pytest.mark.slow),
        pytest.param("stopReplProducer", marks=pytest.mark.slow),
        "fsyncLock",
        "waitAfterCommandFinishesExecution",
    ],
)
def test_killed_while_it_is_held_a_fault_inside_a_server_is_switched_off(place: Place, how: str) -> None:
    process, host, guardian = broken(place, how)
    process.kill()
    process.communicate()
    assert healed(host) == []
    end = time.monotonic() + HEALED
    while not ended(guardian) and time.monotonic() < end:
        time.sleep(0.05)
    assert "nothing to heal" in place.run("heal").stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", FORMS)
def test_with_the_guardian_killed_as_well_heal_by_hand_switches_it_off(place: Place, how: str) -> None:
    process, host, guardian = broken(place, how)
    kill_with_guardian(process, guardian)
    assert on(host) == [how]
    done = place.run("heal")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    assert ("fsyncUnlock" if how == "fsyncLock" else f"fail point {how} off") in done.stdout
    assert on(host) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fsyncLock", "waitAfterCommandFinishesExecution"])
def test_a_kept_cluster_has_no_fault_left_after_a_killed_run_on_it(tmp_path: Path, how: str) -> None:
    place = Place(tmp_path)
    try:
        assert place.run("up", "--name", "sharded").returncode == exits.AS_EXPECTED
        options = ("--streams", "2", "--hold", "60s", "--cluster", "sharded", *RUNS[how])
        process = place.start("run", "update-lookup-stall", *options)
        wait_for(["phase hold"], process, 90)
        hosts = {one["host"] for one in _members(place)}
        assert [found for host in hosts for found in on(host)] == [how]
        process.kill()
        process.communicate()
        assert [left for host in hosts for left in healed(host)] == []
        healed_after_a_kill(place, "sharded")
        assert place.run("down", "sharded").returncode == exits.AS_EXPECTED
        assert place.left_after() == []
    finally:
        place.end()


@pytest.mark.slow
def test_a_member_that_a_killed_run_had_killed_is_started_again_on_a_kept_cluster(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        assert place.run("up", "--name", "sharded").returncode == exits.AS_EXPECTED
        options = ("--streams", "2", "--hold", "4s", "--cluster", "sharded", "--release", "kill-member")
        process = place.start("run", "update-lookup-stall", *options)
        wait_for(["member killed"], process, 120)
        process.kill()
        process.communicate()
        end = time.monotonic() + 2 * HEALED
        while any(one["process"] != "running" for one in _members(place)) and time.monotonic() < end:
            time.sleep(0.2)
        assert {one["process"] for one in _members(place)} == {"running"}
        (host,) = [one["host"] for one in _members(place) if one["name"] == "shard0-2"]
        assert healed(host) == []
        healed_after_a_kill(place, "sharded")
        assert place.run("down", "sharded").returncode == exits.AS_EXPECTED
        assert place.left_after() == []
    finally:
        place.end()


def _members(place: Place) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = json.loads(place.run("status", "sharded", "--json").stdout)["members"]
    return members
