"""Clusters of containers from the outside: brought up, looked at, broken in the ways that are theirs, gone again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from aftermath import Place
from compose_parts import asked, endpoints, left_after, member, things, up
from harness import exits
from stall_parts import outcome

pytestmark = [pytest.mark.live, pytest.mark.docker, pytest.mark.timeout(400)]

NAME = f"tests-{secrets.token_hex(3)}"
HOLD = "8s"
FAULTS = {
    "freeze": (),
    "freeze by signal": ("--fault-option", "how=signal"),
    "pause-replication": (),
    "hang-after-command": (),
    "isolate": (),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, docker_image: str) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("compose"))
    yield one
    one.run("down", "--all")
    one.end()


@pytest.fixture(scope="module")
def mine(place: Place, docker_image: str) -> dict[str, Any]:
    """A kept cluster of containers, as its `up` describes it."""
    return up(place, NAME, "--image", docker_image)


def test_members_are_known_by_the_cluster_s_own_names_and_run_in_containers(mine: dict[str, Any]) -> None:
    assert [one["host"] for one in mine["members"]][:2] == [f"config-0.{NAME}:27017", f"shard0-0.{NAME}:27017"]
    assert {one["process"] for one in mine["members"]} == {"running"}
    assert mine["provider"] == "compose"
    assert len([one for one in things(NAME) if one.startswith("container")]) == len(mine["members"])


def test_an_application_writes_and_reads_through_the_router(mine: dict[str, Any]) -> None:
    with MongoClient[dict[str, Any]](mine["uri"], serverSelectionTimeoutMS=10_000) as client:
        client.shop.orders.insert_one({"_id": 1})
        assert client.shop.orders.find_one() == {"_id": 1}
        assert mine["router"] is not None
        assert mine["router"].startswith("127.0.0.1:")


def test_it_is_listed_and_its_name_is_taken(mine: dict[str, Any], place: Place) -> None:
    before = things(NAME)
    (listed,) = json.loads(place.run("ls", "--json").stdout)
    assert listed["name"] == NAME
    again = place.run("up", "--provider", "compose", "--name", NAME)
    assert again.returncode == exits.REFUSED
    assert f"the name {NAME!r} is taken" in again.stderr
    assert again.stderr.count("\n") == 1
    assert things(NAME) == before


@pytest.mark.parametrize("form", FAULTS)
def test_streams_stall_and_lose_nothing_as_they_do_where_members_are_processes(
    mine: dict[str, Any], place: Place, form: str
) -> None:
    before = endpoints(member(NAME, "shard0-2"))
    done = outcome(
        place,
        place.start(
            *("run", "update-lookup-stall", "--seed", "7", "--cluster", NAME, "--fault", form.split()[0]),
            *(*FAULTS[form], "--hold", HOLD, "--streams", "4"),
        ),
    )
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    assert done.result["counts"] == {"stalled": 4}
    for stream in done.result["streams"]:
        assert stream["waits_for"] == "shard0-2"
        assert stream["delivery"]["required"] == stream["delivery"]["delivered"] > 0
    (fault,) = done.result["faults"]
    assert PROOFS[form] in json.dumps(fault["evidence"])
    assert endpoints(member(NAME, "shard0-2")) == before


PROOFS = {
    "freeze": "cgroup",
    "freeze by signal": "process state T",
    "pause-replication": "lag",
    "hang-after-command": "held",
    "isolate": "no network interface but lo",
}


@pytest.mark.parametrize("form", ["kill", "restart --fault-option signal=KILL"])
def test_a_container_that_was_killed_lives_again_where_it_was(mine: dict[str, Any], place: Place, form: str) -> None:
    before = member(NAME, "shard0-1")
    done = place.run("fault", *form.split(), "--on", "shard0-1", "--cluster", NAME, "--hold", "1s")
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    after = member(NAME, "shard0-1")
    assert after["Id"] == before["Id"]
    assert after["State"]["Running"]
    assert after["State"]["Pid"] != before["State"]["Pid"]
    assert endpoints(after) == endpoints(before)


@pytest.mark.parametrize("fault", ["stutter", "swallow"])
def test_what_is_not_done_to_a_container_is_refused_in_one_line(mine: dict[str, Any], place: Place, fault: str) -> None:
    done = place.run("fault", fault, "--on", "shard0-1", "--cluster", NAME)
    assert done.returncode == exits.REFUSED
    assert done.stderr.count("\n") == 1
    assert "shard0-1" in done.stderr


def test_clusters_of_both_kinds_live_side_by_side_and_down_all_takes_nothing_else(
    place: Place, docker_image: str, tmp_path: Path
) -> None:
    other = Place(tmp_path)
    small = ("--shards", "1", "--members", "1")
    names = [f"{NAME}-{letter}" for letter in "abc"]
    foreign = f"{NAME}-foreign"
    with asked() as engine:
        theirs = engine.containers.create(docker_image, labels={"mongofault.cluster": foreign})
        try:
            wanted = (
                ("--provider", "compose", *small),
                ("--provider", "compose", "--replica-set", "--members", "1"),
                small,
            )
            rising = [
                other.start("up", "--json", "--name", name, *options)
                for name, options in zip(names, wanted, strict=True)
            ]
            said = [process.communicate(timeout=170) for process in rising]
            assert [process.returncode for process in rising] == [exits.AS_EXPECTED] * 3, said
            for number, uri in enumerate(json.loads(out)["uri"] for out, _err in said):
                with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=10_000) as client:
                    client.side.by_side.insert_one({"_id": number})
                    assert client.side.by_side.count_documents({}) == 1
            assert [one["name"] for one in json.loads(other.run("ls", "--json").stdout)] == names
            down = other.run("down", "--all")
            assert down.returncode == exits.AS_EXPECTED, down.stderr
            assert [*left_after(other, names[0], 1.0), *things(names[1])] == []
            assert len(things(foreign)) == 1
        finally:
            theirs.remove(force=True, v=True)
            if other.left():
                other.run("down", "--all")
            other.end()


def test_without_an_engine_containers_are_refused_in_one_line_and_auto_is_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    other = Place(tmp_path)
    try:
        for command in (("up",), ("run", "update-lookup-stall")):
            refused = other.run(*command, "--provider", "compose")
            assert refused.returncode == exits.REFUSED
            assert "no container engine" in refused.stderr
            assert refused.stderr.count("\n") == 1
        brought = other.run("up", "--provider", "auto", "--replica-set", "--members", "1", "--json")
        assert json.loads(brought.stdout)["provider"] == "local"
        assert other.run("down").returncode == exits.AS_EXPECTED
        assert other.left_after(1.0) == []
    finally:
        other.end()


def test_down_leaves_no_container_network_or_volume(mine: dict[str, Any], place: Place) -> None:
    done = place.run("down", NAME)
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    assert left_after(place, NAME, 1.0) == []
