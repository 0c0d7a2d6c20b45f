"""Faults on members and their set, the harness killed with -9: the guardian heals them, or `heal` where it died too."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from aftermath import Place, healed_after_a_kill, kept_cluster, kill_with_guardian, wait_for
from clusters import kept
from faults.cgroup import NoCgroup, place_for
from harness import exits

pytestmark = [pytest.mark.live, pytest.mark.slow]

HEALED = 40.0
"""Seconds until all is as it was; two or three on a machine of one's own, but for a server told to end."""

SCRIPT = """
import asyncio, sys
import faults
from clusters import kept, local
from clusters.cluster import of_set, primary_of
from faults.base import Injection, Site
from faults.options import parse
from harness import stage

async def main(form, hold):
    held = kept.hold("mine")
    cluster = kept.load("mine")
    await stage.recovered(cluster)
    ledger, guardian = local.open_ledger("breaks-mine", on=held)
    target = primary = await primary_of(cluster, "rs0")
    name, *options = form.split()
    kind = faults.by_name(name)
    if kind.aim != "primary":
        target = next(one for one in of_set(cluster, "rs0") if one is not primary)
    fault = kind(Site(cluster, target, "injured.things"), parse(name, kind.options, options))
    assert await fault.available() is None
    injection = Injection(fault, ledger, guarded=guardian.alive)
    act = asyncio.create_task(injection.inject())
    if hold != "injecting":
        await act
    if hold == "healing":
        act = asyncio.create_task(injection.heal())
    if hold != "held":
        await asyncio.sleep(DELAY)
        assert not act.done()
    print("broken", target.name, guardian.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(FORM, HOLD))
"""


def amiss(place: Place, before: list[str]) -> list[str]:
    """What is not as it was: sentences, found with pymongo and the kernel alone."""
    found = [f"process {pid} in state {state}" for pid, state in place.processes().items() if state == "T"]
    found += [f"cgroup {one}" for one in limited() if one not in before]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONGOFAULT_STATE", str(place.root / "state"))
        hosts = kept.read("mine").hosts
    shapes = []
    for name, host in hosts.items():
        client: MongoClient[dict[str, Any]] = MongoClient(
            f"mongodb://{host}/", directConnection=True, socketTimeoutMS=2000, serverSelectionTimeoutMS=1000
        )
        with client:
            try:
                hello = client.admin.command("hello")
                if not (hello.get("secondary") or hello.get("isWritablePrimary")):
                    found.append(f"{name} is in no set")
                    continue
                config = client.admin.command("replSetGetConfig")["config"]
                shapes.append([{key: one[key] for key in FIELDS} for one in config["members"]])
                state = client.admin.command({"getParameter": 1, "failpoint.sleepBeforeCommit": 1})
                if state["failpoint.sleepBeforeCommit"]["mode"]:
                    found.append(f"{name} has sleepBeforeCommit on")
            except PyMongoError as error:
                found.append(f"{name} does not answer: {type(error).__name__}")
    for shape in shapes:
        if [one["host"] for one in shape] != [*hosts.values()]:
            found.append(f"the set is {[one['host'] for one in shape]}")
        found += [f"{one} is not as it was" for one in shape if any(one[key] != value for key, value in PLAIN.items())]
        if [one["priority"] for one in shape] != [2, 1, 1]:
            found.append(f"priorities are {[one['priority'] for one in shape]}")
    if not found:
        host = hosts["rs0-0"]
        with MongoClient[dict[str, Any]](f"mongodb://{host}/", directConnection=True) as client:
            try:
                # Refused while the time of a step-down lasts.
                client.admin.command("replSetStepUp")
            except OperationFailure as error:
                found.append(f"rs0-0 cannot be elected: {error}")
    return found


PLAIN = {"hidden": False, "secondaryDelaySecs": 0, "votes": 1}
FIELDS = ("host", "priority", *PLAIN)


def limited() -> list[str]:
    return [str(one) for one in Path("/sys/fs/cgroup").glob("**/mongofault-*") if one.is_dir()]


def whole_after(place: Place, before: list[str]) -> list[str]:
    end = time.monotonic() + HEALED
    while (left := amiss(place, before)) and time.monotonic() < end:
        time.sleep(0.2)
    return left


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With a replica set that outlives whoever breaks it."""
    with kept_cluster(
        tmp_path_factory.mktemp("crash"), "mine", "--replica-set", "--members", "3", "--heartbeat-ms", "200"
    ) as one:
        yield one


def broken(place: Place, form: str, hold: str = "held", delay: float = 0.0) -> tuple[subprocess.Popen[str], int]:
    """A process that has put the fault on and holds it, or is so many seconds into doing so or healing it; the
    guardian's pid."""
    if form.startswith("cpu-limit") and not possible():
        pytest.skip("no control groups can be made here")
    script = SCRIPT.replace("FORM", repr(form)).replace("HOLD", repr(hold)).replace("DELAY", repr(delay))
    process = place.python(script)
    _, _target, guardian = wait_for(["broken"], process, 60)[-1].split()
    return process, int(guardian)


def possible() -> bool:
    try:
        place_for(os.getpid())
    except NoCgroup:
        return False
    return True


HEALS = {
    "kill": "start mongod",
    "stutter share=0.9": "SIGCONT",
    "cpu-limit": "remove /",
    "remove-member": "add 127.0.0.1:",
    "hide-member": "reconfigure rs0",
    "step-down": "end of the step-down",
}
"""One for each undo record."""


@pytest.mark.parametrize("form", [*HEALS])
def test_killed_while_it_is_held_a_fault_is_healed_by_the_guardian(place: Place, form: str) -> None:
    before = limited()
    process, _guardian = broken(place, form)
    process.kill()
    process.communicate()
    healed_after_a_kill(place, "mine")
    assert whole_after(place, before) == []


@pytest.mark.parametrize("form", ["kill", "cpu-limit", "remove-member", "step-down"])
def test_with_the_guardian_killed_as_well_heal_by_hand_does_it(place: Place, form: str) -> None:
    before = limited()
    process, guardian = broken(place, form)
    kill_with_guardian(process, guardian)
    done = place.run("heal")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    assert HEALS[form] in done.stdout
    assert whole_after(place, before) == []


@pytest.mark.parametrize(
    ("form", "hold", "delay"),
    [
        # A server takes 15 s to end when it is told to: it must not do so after the heal.
        ("terminate", "injecting", 1.0),
        ("restart", "injecting", 1.0),
        ("remove-member", "injecting", 0.01),
        ("slow-apply how=secondaryDelay", "injecting", 0.01),
        ("kill", "healing", 0.02),
        ("remove-member", "healing", 0.02),
    ],
)
def test_killed_in_the_middle_of_breaking_or_healing_all_is_as_it_was(
    place: Place, form: str, hold: str, delay: float
) -> None:
    before = limited()
    process, _guardian = broken(place, form, hold, delay)
    process.kill()
    process.communicate()
    healed_after_a_kill(place, "mine")
    assert whole_after(place, before) == []
