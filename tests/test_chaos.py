"""Chaos on a cluster of its own: all that is planned is done, proven, healed; nothing is lost; it can be done again."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import CLEAN_DEADLINE, Place, wait_for
from harness import cli, exits

SHORT = ("chaos", "--seed", "3", "--duration", "16s", "--every", "4s", "--streams", "2", "--writers", "2", "--json")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert cli.run(["chaos", "--dry-run", "--json", *arguments]) == exits.AS_EXPECTED
    return json.loads(capsys.readouterr().out)["faults"]


def test_a_dry_run_says_what_would_be_done_and_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    first = planned(capsys, "--seed", "7", "--duration", "5m")
    assert first == planned(capsys, "--seed", "7", "--duration", "5m")
    assert first != planned(capsys, "--seed", "8", "--duration", "5m")
    assert {one["fault"] for one in planned(capsys, "--faults", "freeze", "--duration", "5m")} == {"freeze"}


@pytest.mark.live
@pytest.mark.slow
def test_what_is_planned_is_done_healed_and_nothing_is_lost_and_it_can_be_done_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    done = place.run(*SHORT, deadline=300)
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    result = json.loads(done.stdout)
    schedule = planned(capsys, "--seed", "3", "--duration", "16s", "--every", "4s")
    assert [one["id"] for one in result["faults"]] == [f"f{one['number']}" for one in schedule]
    assert [one["name"] for one in result["faults"]] == [one["fault"] for one in schedule]
    assert all(one["proven"] and one["healed"] and one["recovered"] for one in result["faults"])
    assert result["outcome"] == "sound"
    valid = {one["name"]: one["valid"] for one in result["findings"]}
    assert [valid[name] for name in ("delivery", "durability", "recovery")] == [True] * 3
    assert place.left_after(CLEAN_DEADLINE) == []
    again = place.run("chaos", "--replay", result["record"], "--dry-run", "--json")
    assert json.loads(again.stdout)["faults"] == schedule


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_in_the_middle_it_leaves_nothing(place: Place, number: signal.Signals) -> None:
    process = place.start("chaos", "--seed", "3", "--duration", "60s", "--every", "4s", "--faults", "freeze")
    wait_for(["proven"], process, 120)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (exits.INTERRUPTED, -signal.SIGKILL)
    assert place.left_after(CLEAN_DEADLINE) == []
