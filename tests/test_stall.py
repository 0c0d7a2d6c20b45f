"""The silent stall end to end, as a user runs it: found, named, healed, nothing lost; and controls that must differ.

What the harness says of hanging operations is compared with what pymongo alone finds on the members.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from aftermath import Place, wait_for
from harness import exits
from stall_parts import SCENARIO, Outcome, at_once, outcome, run

pytestmark = pytest.mark.live

HOLD = 12.0
STREAMS = 8


def hung_opids(place: Place) -> set[int]:
    """getMores past two seconds on shard0's members, found with nothing but pymongo and the process table."""
    found: set[int] = set()
    for pid in place.processes():
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if "--replSet" not in arguments or arguments[arguments.index("--replSet") + 1] != "shard0":
            continue
        port = int(arguments[arguments.index("--port") + 1])
        client: MongoClient[dict[str, Any]] = MongoClient(
            "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=1000, socketTimeoutMS=2000
        )
        try:
            for op in client.admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": {"op": "getmore"}}]):
                if op.get("secs_running", 0) >= 2:
                    found.add(op["opid"])
        except PyMongoError:
            continue  # the frozen one
        finally:
            client.close()
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("stall"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def demo(place: Place) -> Iterator[tuple[Outcome, set[int]]]:
    """`make demo`'s run, and the opids that an independent look found in the middle of its hold."""
    process = place.start(*SCENARIO)
    before = wait_for(["phase hold"], process, 90)
    time.sleep(HOLD / 2)
    opids = hung_opids(place)
    yield outcome(place, process, "".join(before)), opids
    assert place.left_after(1.0) == []


def test_every_stream_falls_silent_for_the_whole_hold_without_an_error(demo: tuple[Outcome, set[int]]) -> None:
    done, _ = demo
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    assert done.result["verdict"] == "as expected"
    assert done.result["counts"] == {"stalled": STREAMS}
    for stream in done.result["streams"]:
        assert stream["silent_seconds"] > HOLD - 1.0
        assert stream["error_count"] == 0


def test_logs_are_not_kept_where_all_went_as_expected(demo: tuple[Outcome, set[int]]) -> None:
    assert sorted(one.name for one in demo[0].record.iterdir()) == ["history.jsonl", "report.html", "result.json"]


def test_every_hung_getmore_is_named_with_seconds_far_past_its_max_time(demo: tuple[Outcome, set[int]]) -> None:
    done, _ = demo
    for stream in done.result["streams"]:
        assert stream["getmore"]["max_time_ms"] == 1000
        assert stream["getmore"]["seconds"] > HOLD / 2
        assert stream["getmore"]["member"] == "shard0-1"
        assert stream["waits_for"] == "shard0-2"


def test_an_independent_look_finds_the_same_hung_operations(demo: tuple[Outcome, set[int]]) -> None:
    done, found = demo
    named = {alarm["getmore"]["opid"] for alarm in done.result["alarms"]}
    assert len(found) == STREAMS
    assert named == found


@pytest.mark.alone
@pytest.mark.slow
def test_the_alarm_comes_within_a_second_of_the_threshold(demo: tuple[Outcome, set[int]]) -> None:
    done, _ = demo
    assert len(done.result["alarms"]) == STREAMS
    assert all(stream["alarm"]["delay"] <= 1.0 for stream in done.result["streams"])


def test_nothing_is_lost_doubled_or_out_of_order(demo: tuple[Outcome, set[int]]) -> None:
    done, _ = demo
    for stream in done.result["streams"]:
        delivery = stream["delivery"]
        assert delivery["required"] == delivery["delivered"] > 100
        assert delivery["doubled"] == delivery["out_of_order"] == delivery["missing"] == 0


def test_a_stored_record_gives_the_same_verdict(demo: tuple[Outcome, set[int]], place: Place) -> None:
    done, _ = demo
    again = place.run("check", str(done.record), "--json")
    assert again.returncode == done.code
    assert json.loads(again.stdout) == {**done.result, "record": str(done.record)}


def test_a_record_with_an_event_removed_by_hand_says_which_is_missing_on_which_stream(
    demo: tuple[Outcome, set[int]], place: Place, tmp_path: Path
) -> None:
    done, _ = demo
    lines = (done.record / "history.jsonl").read_text().splitlines(keepends=True)
    events = [number for number, line in enumerate(lines) if '"kind":"stream.event"' in line and '"seq":1' in line]
    gone = json.loads(lines.pop(events[len(events) // 2]))
    (tmp_path / "history.jsonl").write_text("".join(lines))
    again = place.run("check", str(tmp_path))
    assert again.returncode == exits.NOT_AS_EXPECTED
    assert f"stream {gone['stream']}" in again.stdout
    assert f"key '{gone['key']}', seq {gone['seq']}" in again.stdout
    assert "missing" in again.stdout


@pytest.fixture(scope="module")
def two_faults(place: Place) -> list[Outcome]:
    """Two runs at once under the same fault: one with a socket timeout, one that asks for no post-images."""
    return at_once(
        place,
        ("--driver-option", "socketTimeoutMS=3000", "--hold", "8s"),
        ("--full-document", "default", "--hold", "8s"),
    )


@pytest.mark.slow
def test_two_runs_at_once_do_not_disturb_each_other(two_faults: list[Outcome], place: Place) -> None:
    assert [done.code for done in two_faults] == [exits.AS_EXPECTED] * 2, two_faults[0].out + two_faults[1].out
    assert [done.result["counts"] for done in two_faults] == [{"stalled": STREAMS}, {"no effect": STREAMS}]
    assert place.left_after(1.0) == []


@pytest.mark.slow
def test_a_socket_timeout_is_reported_as_never_firing(two_faults: list[Outcome]) -> None:
    done = two_faults[0]
    (finding,) = [finding for finding in done.result["findings"] if finding["name"] == "timeouts"]
    assert finding["valid"] is False
    assert "socketTimeoutMS of 3 s: the timeout never fired: 8 streams silent" in done.out


@pytest.mark.slow
def test_without_post_images_nothing_stalls_under_the_same_fault(two_faults: list[Outcome]) -> None:
    done = two_faults[1]
    assert done.result["alarms"] == []
    assert done.result["faults"][0]["proven"] is not None


@pytest.fixture(scope="module")
def two_calm(place: Place) -> list[Outcome]:
    """Two runs at once without a fault: one with traffic, one without."""
    return at_once(place, ("--fault", "none", "--hold", "6s"), ("--fault", "none", "--no-traffic", "--hold", "6s"))


@pytest.mark.slow
def test_without_a_fault_there_is_no_alarm(two_calm: list[Outcome]) -> None:
    done = two_calm[0]
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["alarms"] == done.result["faults"] == []
    assert "silent" not in states(done)


@pytest.mark.slow
def test_without_a_fault_and_without_traffic_streams_are_quiet(two_calm: list[Outcome]) -> None:
    done = two_calm[1]
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["alarms"] == []
    events = map(json.loads, (done.record / "history.jsonl").read_text().splitlines())
    assert {event["state"] for event in events if event["kind"] == "stream.state"} == {"quiet"}


def test_an_unexpected_outcome_is_not_as_expected(demo: tuple[Outcome, set[int]], place: Place, tmp_path: Path) -> None:
    history = (demo[0].record / "history.jsonl").read_text()
    (tmp_path / "history.jsonl").write_text(history.replace('"expected":["stalled"]', '"expected":["no effect"]', 1))
    done = place.run("check", str(tmp_path))
    assert done.returncode == exits.NOT_AS_EXPECTED
    assert "expected no effect, observed 8 stalled" in done.stdout


@pytest.mark.slow
def test_a_random_secondary_without_tags_stalls_the_streams_too(place: Place) -> None:
    done = run(place, "--target", "secondary")
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["counts"] == {"stalled": STREAMS}
    assert done.finding("share")["evidence"]["window_sizes"] in ([], [2])


@pytest.mark.slow
def test_a_fault_whose_injection_does_nothing_makes_the_run_unknown(place: Place) -> None:
    script = (
        "import faults.freeze, sys\n"
        "async def nothing(self): pass\n"
        "faults.freeze.Freeze.inject = nothing\n"
        "from harness.cli import main\n"
        f"main({[*SCENARIO, '--streams', '2']!r})\n"
    )
    done = outcome(place, place.python(script))
    assert done.code == exits.UNKNOWN
    assert done.result["verdict"] == "unknown"
    assert "not in process state T" in done.out
    assert (done.record / "logs/shard0-0.log").stat().st_size > 0
    assert place.left_after(1.0) == []


@pytest.fixture
def burners() -> Iterator[None]:
    """Every core busy with a process of normal priority and another of low priority."""
    code = "while True: pass"
    busy = [
        subprocess.Popen(["nice", "-n", niceness, sys.executable, "-c", code])
        for niceness in ("0", "10")
        for _ in range(os.cpu_count() or 2)
    ]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def states(done: Outcome) -> set[str]:
    """The states that streams were in during the hold."""
    events = list(map(json.loads, (done.record / "history.jsonl").read_text().splitlines()))
    start, end = (
        next(e["t"] for e in events if e["kind"] == "phase" and e["name"] == name) for name in ("hold", "release")
    )
    return {event["state"] for event in events if event["kind"] == "stream.state" and start <= event["t"] <= end}


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.usefixtures("burners")
def test_an_overloaded_machine_makes_streams_lag_and_never_silent(place: Place) -> None:
    done = run(place, "--fault", "none", "--hold", "30s", "--rate", "100")
    assert done.result["alarms"] == []
    assert "silent" not in states(done)
    assert done.code == exits.AS_EXPECTED, done.out


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.usefixtures("burners")
def test_an_overloaded_machine_does_not_hide_a_stall(place: Place) -> None:
    done = run(place)
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["counts"] == {"stalled": STREAMS}


@pytest.mark.matrix
@pytest.mark.slow
def test_no_fault_for_a_minute_raises_no_alarm(place: Place) -> None:
    done = run(place, "--fault", "none", "--hold", "60s")
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["alarms"] == []


@pytest.mark.slow
def test_a_hold_past_the_dial_deadline_hangs_some_and_fails_others_and_loses_nothing(place: Place) -> None:
    done = run(place, "--hold", "25s")
    assert done.code == exits.AS_EXPECTED, done.out
    assert set(done.result["counts"]) <= {"stalled", "error surfaced"}
    assert done.result["counts"]["error surfaced"] >= 1
    for stream in done.result["streams"]:
        assert stream["delivery"]["missing"] == stream["delivery"]["doubled"] == 0
        if stream["outcome"] == "error surfaced":
            assert [error["code"] for error in stream["errors"]] == [202]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "streams"),
    [
        pytest.param(("--members", "5"), 8, marks=pytest.mark.matrix),
        pytest.param(("--shards", "3"), 8, marks=pytest.mark.matrix),
        (("--streams", "32", "--hold", "15s"), 32),
    ],
)
def test_larger_clusters_and_more_streams_stall_the_same(place: Place, options: tuple[str, ...], streams: int) -> None:
    done = run(place, *options)
    assert done.code == exits.AS_EXPECTED, done.out
    assert done.result["counts"] == {"stalled": streams}
