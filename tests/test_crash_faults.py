"""Faults inside a server, their harness killed with -9: see `crash_matrix`; and runs on a kept cluster, killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

import crash_matrix
import faults
from aftermath import Place, healed_after_a_kill, wait_for
from crash_matrix import Site, cell, cells
from harness import exits

pytestmark = pytest.mark.live

QUICK = (("pause-replication how=fsyncLock", "hold", "guardian"),)
RUNS = {
    "fsyncLock": ("--fault", "pause-replication", "--fault-option", "how=fsyncLock"),
    "waitAfterCommandFinishesExecution": ("--fault", "hang-after-command"),
}
HEALED = 20.0
"""Seconds until all is off; a second or two on a machine of one's own."""


@pytest.mark.parametrize(("form", "moment", "healer"), cells(crash_matrix.IN_SERVER, quick=QUICK))
def test_nothing_is_left(site: Site, form: str, moment: str, healer: str) -> None:
    cell(site, form, moment, healer)


def test_every_fault_there_is_is_in_the_matrix() -> None:
    assert {form.split()[0] for form in crash_matrix.FORMS} | crash_matrix.ON_CONTAINERS == set(faults.names())


def on(host: str) -> list[str]:
    """What is on in a server, found with pymongo alone."""
    client: MongoClient[dict[str, Any]] = MongoClient(
        f"mongodb://{host}/", directConnection=True, socketTimeoutMS=5000, serverSelectionTimeoutMS=5000
    )
    with client:
        found = ["fsyncLock"] if client.admin.command("currentOp").get("fsyncLock") else []
        parameters = client.admin.command({"getParameter": "*"})
        prefix = "failpoint."
        return found + [
            name.removeprefix(prefix) for name, value in parameters.items() if name.startswith(prefix) and value["mode"]
        ]


def healed(host: str) -> list[str]:
    """What is still on at the end of the time allowed, or nothing as soon as it is so."""
    end = time.monotonic() + HEALED
    while (left := on(host)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Place]:
    """With a kept sharded cluster, taken down afterwards without a trace."""
    place = Place(tmp_path)
    try:
        assert place.run("up", "--name", "sharded").returncode == exits.AS_EXPECTED
        yield place
        healed_after_a_kill(place, "sharded")
        assert place.run("down", "sharded").returncode == exits.AS_EXPECTED
        assert place.left_after() == []
    finally:
        place.end()


def members(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(place.run("status", "sharded", "--json").stdout)["members"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["fsyncLock", pytest.param("waitAfterCommandFinishesExecution", marks=pytest.mark.matrix)]
)
def test_a_kept_cluster_has_no_fault_left_after_a_killed_run_on_it(kept: Place, how: str) -> None:
    options = ("--streams", "2", "--hold", "60s", "--cluster", "sharded", *RUNS[how])
    process = kept.start("run", "update-lookup-stall", *options)
    wait_for(["phase hold"], process, 90)
    hosts = {one["host"] for one in members(kept)}
    assert [found for host in hosts for found in on(host)] == [how]
    process.kill()
    process.communicate()
    assert [left for host in hosts for left in healed(host)] == []


@pytest.mark.slow
def test_a_member_that_a_killed_run_had_killed_is_started_again_on_a_kept_cluster(kept: Place) -> None:
    options = ("--streams", "2", "--hold", "4s", "--cluster", "sharded", "--release", "kill-member")
    process = kept.start("run", "update-lookup-stall", *options)
    wait_for(["member killed"], process, 120)
    process.kill()
    process.communicate()
    end = time.monotonic() + 2 * HEALED
    while any(one["process"] != "running" for one in members(kept)) and time.monotonic() < end:
        time.sleep(0.2)
    assert {one["process"] for one in members(kept)} == {"running"}
    (host,) = [one["host"] for one in members(kept) if one["name"] == "shard0-2"]
    assert healed(host) == []
