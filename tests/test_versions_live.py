"""The stall on other server versions: 6.0 as it is, and below it the negative controls, whose lookups never hang."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ConfigurationError

from aftermath import Place
from clusters.wire.connection import Connection
from harness import exits
from harness.history import read
from harness.lookups import NOT_ROUTED
from harness.suites.versions import row
from stall_parts import Outcome, run
from version_parts import installed

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

STREAMS = 2
COMMON = ("--streams", str(STREAMS), "--hold", "8s")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("versions"))
    yield one
    one.end()


def ran(patch: pytest.MonkeyPatch, place: Place, version: str, *options: str) -> Outcome:
    installed(patch, place, version)
    done = run(place, *COMMON, "--server-version", version, *options)
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    assert done.result["server"]["version"] == version
    assert place.left_after(1.0) == []
    return done


@pytest.mark.parametrize("version", ["4.4.2", pytest.param("5.0.4", marks=pytest.mark.matrix)])
def test_before_6_0_post_images_come_though_the_member_they_were_to_come_from_is_frozen(
    place: Place, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    done = ran(monkeypatch, place, version)
    assert done.result["counts"] == {"no effect": STREAMS}, done.out
    assert done.result["server"]["lookup"] == NOT_ROUTED
    assert f"post-images: {NOT_ROUTED}" in done.out
    events = list(read(done.record / "history.jsonl"))
    found = row(done.result, "", done.code, events)
    updates = sum(one.kind == "stream.event" and one["op"] == "update" for one in events)
    images = sum(one.kind == "stream.event" and one["op"] == "update" and one["image"] for one in events)
    assert images == updates
    assert found.images >= 5 * STREAMS  # 20 writes a second for 5 s; a burdened machine does fewer


def test_the_last_6_0_stalls_and_a_member_that_was_killed_is_started_again_with_its_libraries(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ran(monkeypatch, place, "6.0.27", "--release", "kill-member")
    assert done.result["counts"] == {"stalled": STREAMS}, done.out
    assert done.result["server"]["lookup"] == "routed by the shard"
    assert NOT_ROUTED not in done.out
    for stream in done.result["streams"]:
        assert stream["getmore"]["seconds"] > 2 * stream["getmore"]["max_time_ms"] / 1000


async def test_what_drivers_refuse_is_a_set_for_raw_wire_which_is_broken_by_its_processes_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, place, "4.2.6")
    up = place.run("up", "--replica-set", "--server-version", "4.2.6", "--json")
    assert up.returncode == exits.AS_EXPECTED, up.stderr
    described = json.loads(up.stdout)
    assert described["server"]["version"] == "4.2.6"
    try:
        primary = await Connection.open(described["members"][0]["host"], deadline=10)
        assert primary.hello["isWritablePrimary"]
        assert primary.hello["maxWireVersion"] == 8
        written = {"insert": "orders", "documents": [{"_id": 1}], "writeConcern": {"w": 3, "wtimeout": 20_000}}
        assert (await primary.command("shop", written, deadline=30))["n"] == 1
        found = await primary.command("shop", {"find": "orders"}, deadline=10)
        assert found["cursor"]["firstBatch"] == [{"_id": 1}]
        primary.close()
        with (
            MongoClient[dict[str, Any]](described["uri"], serverSelectionTimeoutMS=5000) as client,
            pytest.raises(ConfigurationError, match="wire version 8"),
        ):
            client.admin.command("ping")
        broken = place.run("fault", "freeze", "--on", "secondary", "--hold", "1s")
        assert broken.returncode == exits.AS_EXPECTED, broken.stdout + broken.stderr
        refused = place.run("fault", "pause-replication", "--on", "secondary")
        assert refused.returncode == exits.REFUSED
        assert "the guardian could not heal it, as drivers refuse mongod 4.2.6" in refused.stderr
    finally:
        assert place.run("down").returncode == exits.AS_EXPECTED
    assert place.left_after(1.0) == []
