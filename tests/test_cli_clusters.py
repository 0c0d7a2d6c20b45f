"""Clusters that are kept: up, looked at, used by the example of docs/clusters.md, and gone without a trace."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from aftermath import Place, wait_for
from harness import exits

pytestmark = pytest.mark.live

PAGE = Path(__file__).parent.parent / "docs/clusters.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("kept"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def mine(place: Place) -> Iterator[dict[str, Any]]:
    """A sharded cluster with a tag, a priority and parameters of its own; what `up --json` says of it."""
    done = place.run(
        *("up", "--name", "mine", "--shards", "2", "--members", "3", "--tag", "shard0-1:zone=a", "--json"),
        *("--priority", "shard1-1:0", "--parameter", "shard0-0:internalQueryExecYieldIterations=99"),
        *("--parameter", "ttlMonitorSleepSecs=7", "--heartbeat-ms", "500"),
    )
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    yield json.loads(done.stdout)
    assert place.run("down", "mine").returncode == exits.AS_EXPECTED
    assert place.left_after(1.0) == []


def host(mine: dict[str, Any], name: str) -> str:
    return next(str(member["host"]) for member in mine["members"] if member["name"] == name)


def ask(address: str, command: dict[str, Any]) -> dict[str, Any]:
    with MongoClient[dict[str, Any]](f"mongodb://{address}/", directConnection=True) as client:
        return client.admin.command(command)


def test_pymongo_sync_sees_a_sharded_cluster(mine: dict[str, Any]) -> None:
    with MongoClient[dict[str, Any]](mine["uri"]) as client:
        assert client.admin.command("hello")["msg"] == "isdbgrid"
        shards = client.admin.command("listShards")["shards"]
    assert [shard["_id"] for shard in shards] == ["shard0", "shard1"]


def test_the_example_of_the_page_runs_against_it(mine: dict[str, Any], place: Place) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    example = place.root / "example.py"
    example.write_text(found[1])
    done = place.run("exec", "--name", "mine", "--", sys.executable, str(example))
    assert done.returncode == 0, done.stderr
    insert, update = done.stdout.split("\n", 1)
    assert insert in ("insert new", "insert paid")  # the post-image is read after the event and may be newer
    assert update == "update paid\n"


def test_the_exit_code_of_a_command_is_handed_on(mine: dict[str, Any], place: Place) -> None:
    assert place.run("exec", "--name", "mine", "--", "sh", "-c", "exit 7").returncode == 7


def test_tags_priorities_and_settings_are_in_the_configuration(mine: dict[str, Any]) -> None:
    tags = {
        member["host"]: member["tags"]
        for member in ask(host(mine, "shard0-0"), {"replSetGetConfig": 1})["config"]["members"]
    }
    assert tags == {
        host(mine, "shard0-0"): {},
        host(mine, "shard0-1"): {"zone": "a"},
        host(mine, "shard0-2"): {},
    }
    config = ask(host(mine, "shard1-0"), {"replSetGetConfig": 1})["config"]
    assert [member["priority"] for member in config["members"]] == [2, 0, 1]
    assert config["settings"]["heartbeatIntervalMillis"] == 500


def test_parameters_hold_for_all_or_for_the_member_named(mine: dict[str, Any]) -> None:
    wanted = {"getParameter": 1, "ttlMonitorSleepSecs": 1, "internalQueryExecYieldIterations": 1}
    answers = {name: ask(host(mine, name), wanted) for name in ("shard0-0", "shard0-1", "config-0")}
    assert {one["ttlMonitorSleepSecs"] for one in answers.values()} == {7}
    assert answers["shard0-0"]["internalQueryExecYieldIterations"] == 99
    assert answers["shard0-1"]["internalQueryExecYieldIterations"] != 99


def test_the_balancer_is_off(mine: dict[str, Any]) -> None:
    with MongoClient[dict[str, Any]](f"mongodb://{host(mine, 'config-0')}/", directConnection=True) as client:
        settings = client["config"]["settings"].find_one({"_id": "balancer"})
    assert settings is not None
    assert settings["stopped"] is True


def test_a_taken_name_is_refused_in_one_line_and_nothing_is_started(mine: dict[str, Any], place: Place) -> None:
    before = place.processes()
    done = place.run("up", "--name", "mine")
    assert done.returncode == exits.REFUSED
    assert "mine" in done.stderr
    assert done.stderr.count("\n") == 1
    assert place.processes().keys() == before.keys()


@pytest.mark.slow
def test_several_clusters_live_side_by_side(mine: dict[str, Any], place: Place) -> None:
    done = place.run("up", "--name", "other", "--replica-set", "--members", "1", "--json")
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    unsuited = place.run("run", "update-lookup-stall", "--cluster", "other")
    assert unsuited.returncode == exits.REFUSED
    assert "a sharded cluster is needed" in unsuited.stderr
    listed = json.loads(place.run("ls", "--json").stdout)
    assert [cluster["name"] for cluster in listed] == ["mine", "other"]
    (place.root / "state/ledgers/other/cluster.json").write_text("{")
    assert "damaged or lost" in place.run("status", "other").stderr
    assert "damaged or lost" in place.run("ls").stdout
    assert place.run("down", "other").returncode == exits.AS_EXPECTED
    assert [cluster["name"] for cluster in json.loads(place.run("ls", "--json").stdout)] == ["mine"]
    with MongoClient[dict[str, Any]](mine["uri"]) as client:
        client.admin.command("ping")


def test_a_cluster_without_the_marker_is_not_broken(mine: dict[str, Any], place: Place) -> None:
    with MongoClient[dict[str, Any]](mine["uri"]) as client:
        marker = client["mongofault"]["owner"].find_one_and_delete({"_id": "owner"})
        assert marker is not None
        done = place.run("run", "update-lookup-stall", "--cluster", "mine", "--target", "secondary")
        client["mongofault"]["owner"].insert_one(marker)
    assert done.returncode == exits.REFUSED
    assert "does not bear the marker" in done.stderr
    assert not list(place.root.glob("runs/*"))


@pytest.mark.slow
def test_a_run_on_a_kept_cluster_leaves_it_as_it_was(mine: dict[str, Any], place: Place) -> None:
    config = {"replSetGetConfig": 1}
    before = [member["tags"] for member in ask(host(mine, "shard0-0"), config)["config"]["members"]]
    options = ("--streams", "2", "--hold", "5s")
    done = place.run("run", "update-lookup-stall", "--cluster", "mine", *options)
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    assert [member["tags"] for member in ask(host(mine, "shard0-0"), config)["config"]["members"]] == before
    with MongoClient[dict[str, Any]](mine["uri"]) as client:
        assert [name for name in client.list_database_names() if name.startswith("mongofault_")] == []
    assert [ledger.name for ledger in (place.root / "state/ledgers").iterdir()] == ["mine"]


FAULT = ("fault", "freeze", "--cluster", "mine", "--on")


@pytest.mark.parametrize("spec", ["shard1/secondary", "router", "shard0/minority,shard1/minority"])
def test_a_fault_by_hand_is_proven_held_healed_and_recovered_from(
    mine: dict[str, Any], place: Place, spec: str
) -> None:
    done = place.run(*FAULT, spec, "--hold", "1s", "--seed", "7", "--json")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    told = json.loads(done.stdout)
    again = json.loads(place.run(*FAULT, spec, "--hold", "100ms", "--seed", "7", "--json").stdout)
    assert [one["target"] for one in told["blows"]] == [one["target"] for one in again["blows"]]
    assert len(told["blows"]) == 1 + spec.count(",")
    for one in told["blows"]:
        assert one["evidence"]["fields"]["state"] == "T"
        assert one["healed"] - one["proven"] >= 1
        assert told["recovered"] >= one["healed"]
        assert (one["lost"], one["problem"]) == (None, None)
    assert set(place.processes().values()) <= {"S", "R", "D"}
    assert [ledger.name for ledger in (place.root / "state/ledgers").iterdir()] == ["mine"]


def test_a_fault_by_hand_acts_while_it_is_held_and_is_healed_by_ctrl_c(mine: dict[str, Any], place: Place) -> None:
    process = place.start(*FAULT, "shard0/secondary", "--hold", "60s")
    wait_for(["held for 60 s"], process, 30)
    assert list(place.processes().values()).count("T") == 1
    process.send_signal(signal.SIGINT)
    out, _err = process.communicate(timeout=30)
    assert process.returncode == exits.INTERRUPTED
    assert "healed at" in out
    assert "T" not in place.processes().values()
    assert [ledger.name for ledger in (place.root / "state/ledgers").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [("shard9", "found 'shard9', expected a node"), ("tag:zone=nowhere", "means no member of this cluster")],
)
def test_a_fault_by_hand_on_nobody_is_refused_in_one_line(
    mine: dict[str, Any], place: Place, spec: str, said: str
) -> None:
    done = place.run(*FAULT, spec)
    assert done.returncode == exits.REFUSED
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
