"""A run of retrying writers that is killed leaves nothing: no process, no fail point, no data, no setting."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place, healed_after_a_kill, kept_cluster, wait_for
from harness import exits
from retry_overlap_parts import SCENARIO

pytestmark = [pytest.mark.live, pytest.mark.slow]

HOLD = ("--hold", "30s", "--driver-option", "socketTimeoutMS=500")
HOLD_DEADLINE = 60.0

LOOK = """
import json, os
from pymongo import MongoClient
with MongoClient(os.environ["MONGODB_URI"]) as client:
    admin = client.admin
    print(json.dumps({
        "on": [name.removeprefix("failpoint.") for name, value in admin.command("getParameter", "*").items()
               if name.startswith("failpoint.") and value["mode"]],
        "slowms": admin.command("profile", -1)["slowms"],
        "databases": [name for name in client.list_database_names() if name.startswith("mongofault_")],
    }))
"""
"""What there is on a cluster of what a run sets, as pymongo alone sees it."""


def look(place: Place, name: str) -> Any:
    done = place.run("exec", "--name", name, "--", sys.executable, "-c", LOOK)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


@pytest.mark.parametrize("fault", ["fail-point", "freeze"])
def test_killed_in_the_hold_a_run_on_its_own_cluster_leaves_nothing(place: Place, fault: str) -> None:
    process = place.start(*SCENARIO, *HOLD, "--fault", fault)
    wait_for(["phase hold"], process, HOLD_DEADLINE)
    process.kill()
    process.communicate()
    assert place.left_after() == []
    assert list(place.root.glob("runs/*/history.jsonl"))


def test_killed_between_faults_that_come_and_go_nothing_is_left(place: Place) -> None:
    options = ("--every", "2s", "--records", "600", "--fault", "fail-point", "--driver-option", "socketTimeoutMS=300")
    process = place.start(*SCENARIO, *options)
    wait_for(["fault healed"], process, HOLD_DEADLINE)
    process.kill()
    process.communicate()
    assert place.left_after() == []


def test_killed_in_the_hold_a_run_on_a_kept_cluster_leaves_it_as_it_was(tmp_path: Path) -> None:
    with kept_cluster(tmp_path, "mine", "--proxied", "--replica-set", "--members", "1") as place:
        before = look(place, "mine")
        process = place.start(*SCENARIO, *HOLD, "--cluster", "mine", "--fault", "fail-point")
        wait_for(["phase hold"], process, HOLD_DEADLINE)
        held = look(place, "mine")
        assert held["on"] == ["hangDuringBatchInsert"]
        assert held["slowms"] == -1
        assert len(held["databases"]) == 1
        process.kill()
        process.communicate()
        healed_after_a_kill(place, "mine")
        assert look(place, "mine") == before
        done = place.run(*SCENARIO, "--cluster", "mine", "--driver-option", "socketTimeoutMS=300")
        assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
        assert look(place, "mine") == before
