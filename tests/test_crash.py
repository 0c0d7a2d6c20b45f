"""Whatever ends the harness, kill -9 included: seconds later nothing of the run is left but its record."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place, kill_with_guardian, wait_for
from harness import exits

pytestmark = pytest.mark.live

RUN = ("run", "update-lookup-stall", "--streams", "2", "--hold", "30s", "--seed", "1")
HOLD_DEADLINE = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


def guardians(place: Place) -> list[int]:
    """The pids of the guardians of this place's runs."""
    return [pid for pid in place.processes() if b"clusters.guard" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def healed_by_hand(place: Place) -> str:
    done = place.run("heal")
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    return done.stdout


def crash(place: Place, delay: float) -> None:
    """Kill -9 during the hold, `delay` seconds into it; a frozen member is among what must go."""
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    assert "T" in place.processes().values()
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert place.left_after() == []
    assert "nothing to heal" in healed_by_hand(place)
    assert list(place.root.glob("runs/*/history.jsonl"))


def test_killed_during_the_hold_nothing_is_left_frozen_running_or_on_disk(place: Place) -> None:
    crash(place, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("round_", [*range(3), *(pytest.param(one, marks=pytest.mark.matrix) for one in range(3, 10))])
def test_killed_at_a_random_moment_of_the_hold_nothing_is_left(place: Place, round_: int) -> None:
    crash(place, random.Random().uniform(0, 4))


@pytest.mark.parametrize("delay", [1.0, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.4, 1.8))])
def test_killed_during_bring_up_nothing_is_left(place: Place, delay: float) -> None:
    process = place.start(*RUN)
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert place.left_after() == []
    assert "nothing to heal" in healed_by_hand(place)


@pytest.mark.slow
def test_with_the_guardian_killed_as_well_heal_by_hand_removes_everything(place: Place) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    (guardian,) = guardians(place)
    kill_with_guardian(process, guardian)
    time.sleep(0.5)
    assert "T" in place.processes().values()
    assert "SIGCONT" in healed_by_hand(place) or "kill" in healed_by_hand(place)
    assert place.left_after(1.0) == []
    assert "nothing to heal" in healed_by_hand(place)


def test_ctrl_c_heals_and_the_exit_says_so(place: Place) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == exits.INTERRUPTED
    assert "healing" in err
    assert "not skipped" in err
    assert place.left_after(1.0) == []
    (result,) = place.root.glob("runs/*/result.json")
    document = json.loads(result.read_text())
    assert document["verdict"] == "unknown"
    assert document["faults"][0]["healed"] is not None


def server(place: Place, name: str) -> int:
    """The pid of a member, by its data directory, or of the stand-in router."""
    for pid in place.processes():
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if (b"clusters.router" in command) if name == "router" else (f"/{name}\0".encode() in command):
            return pid
    raise AssertionError(f"no process of {name}")


def ended(place: Place, process: subprocess.Popen[str], deadline: float = 30) -> dict[str, Any]:
    """The result of a run that ends by itself, soon and leaving nothing."""
    out, err = process.communicate(timeout=deadline)
    assert place.left_after(1.0) == []
    (result,) = place.root.glob("runs/*/result.json")
    document: dict[str, Any] = json.loads(result.read_text())
    assert document["verdict"] == "unknown", out + err
    assert process.returncode == exits.UNKNOWN, out + err
    return document


@pytest.mark.parametrize("name", ["shard0-1", "router"])
@pytest.mark.slow
def test_a_process_of_the_cluster_that_ends_makes_the_run_unknown_at_once(place: Place, name: str) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    os.kill(server(place, name), signal.SIGKILL)
    document = ended(place, process)
    assert f"{name} ended out of turn" in document["reasons"][0]


@pytest.mark.slow
def test_a_member_that_somebody_thaws_for_a_moment_makes_the_run_unknown(place: Place) -> None:
    process = place.start(*RUN[:-4], "--hold", "4s")
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    (frozen,) = [pid for pid, letter in place.processes().items() if letter == "T"]
    os.kill(frozen, signal.SIGCONT)
    time.sleep(0.5)
    os.kill(frozen, signal.SIGSTOP)
    document = ended(place, process, 60)
    assert "gone during the hold" in str(document["reasons"])


@pytest.mark.slow
def test_a_guardian_that_is_killed_is_replaced_and_the_next_one_does_its_work(place: Place) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    (guardian,) = guardians(place)
    os.kill(guardian, signal.SIGKILL)
    began = time.monotonic()
    while guardians(place) in ([], [guardian]):
        assert time.monotonic() - began < 2, "no other guardian within 2 s"
        time.sleep(0.01)
    wait_for(["another guardian watches"], process, 5)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert place.left_after() == []


@pytest.mark.slow
def test_with_both_killed_the_next_command_heals_what_was_left(place: Place) -> None:
    process = place.start(*RUN)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    (guardian,) = guardians(place)
    kill_with_guardian(process, guardian)
    assert "T" in place.processes().values()
    done = place.run("up", "--name", "next", "--replica-set", "--members", "1")
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    assert "left behind by a killed run" in done.stderr
    assert list(place.processes().values()).count("T") == 0
    assert len(place.processes()) == 1
    assert place.run("down", "next").returncode == exits.AS_EXPECTED
    assert place.left_after(1.0) == []


@pytest.mark.slow
def test_a_reader_that_goes_away_changes_nothing_about_the_verdict(place: Place) -> None:
    process = place.start(*RUN[:-4], "--fault", "none", "--no-traffic", "--hold", "4s")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == exits.AS_EXPECTED
    assert process.stderr is not None
    process.stderr.close()
    assert place.left_after(1.0) == []
    assert list(place.root.glob("runs/*/result.json"))


@pytest.mark.slow
def test_signals_while_everything_is_removed_are_answered_and_the_exit_stays_130(place: Place) -> None:
    process = place.start(*RUN)
    wait_for(["phase load"], process, HOLD_DEADLINE)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.08)
    _out, err = process.communicate(timeout=30)
    assert process.returncode == exits.INTERRUPTED, err
    assert "Traceback" not in err
    assert place.left_after(1.0) == []


@pytest.mark.slow
def test_a_cluster_that_is_kept_outlives_up_and_a_killed_run_on_it(place: Place) -> None:
    assert place.run("up", "--name", "mine").returncode == exits.AS_EXPECTED
    before = set(place.processes())
    process = place.start(*RUN, "--cluster", "mine")
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    for refused in (place.run(*RUN, "--cluster", "mine"), place.run("down", "mine")):
        assert refused.returncode == exits.REFUSED
        assert "'mine' is in use" in refused.stderr
    assert "T" in place.processes().values()
    process.kill()
    process.communicate()
    end = time.monotonic() + 5
    while ("T" in place.processes().values() or guardians(place)) and time.monotonic() < end:
        time.sleep(0.05)
    assert "T" not in place.processes().values()
    assert set(place.processes()) == before
    assert "nothing to heal" in healed_by_hand(place)
    status = json.loads(place.run("status", "mine", "--json").stdout)
    assert {member["process"] for member in status["members"]} == {"running"}
    assert place.run("down", "mine").returncode == exits.AS_EXPECTED
    assert place.left_after(1.0) == []
