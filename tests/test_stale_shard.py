"""Who waits while a router refreshes what it knows of one stale shard, fine and coarse: runs as a user starts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place
from harness import exits
from routing_parts import ROUTERS, SPLIT, run
from stall_parts import Outcome

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    one = Place(tmp_path_factory.mktemp("stale"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def split(place: Place) -> Iterator[Outcome]:
    yield run(place)
    assert place.left_after(1.0) == []


def routers(done: Outcome) -> dict[str, dict[str, Any]]:
    return {one["setting"]: one for one in done.finding("isolation")["evidence"]["routers"]}


def codes(done: Outcome, setting: str) -> dict[str, int | None]:
    return {one["op"]: one["code"] for one in routers(done)[setting]["operations"] if one["outcome"] != "ok"}


def test_a_fine_router_holds_back_three_operations_and_a_coarse_one_the_whole_collection(split: Outcome) -> None:
    assert split.code == exits.AS_EXPECTED, split.out + split.err
    assert split.result["outcome"] == "isolated"
    found = routers(split)
    assert found["fine"]["pending"] == ["first find B", "second find B", "second update B"]
    assert found["fine"]["slowest_spared"] < 0.5
    assert set(found["coarse"]["pending"]) == SPLIT.expected["coarse"].waiting
    assert {one["name"]: one["valid"] for one in split.result["findings"]} == {
        "course": True, "recovery": True, "isolation": True, "control": True, "case": True, "applied": True,
    }  # fmt: skip


def test_the_probe_says_304_where_the_shard_is_marked_and_runs_out_of_time_where_all_are(split: Outcome) -> None:
    assert codes(split, "fine") == {"probe B": 304}
    assert codes(split, "coarse") == {"probe B": 50}


def test_both_routers_count_one_stale_error_and_one_incremental_refresh(split: Outcome) -> None:
    for one in split.finding("case")["evidence"]["routers"]:
        counted = {name: one["counters"][name] for name in SPLIT.expected["fine"].counters}
        assert list(counted.values()) == [1, 1, 0, 0], one


def test_the_log_of_a_router_tells_what_it_received_and_when_it_refreshed(split: Outcome) -> None:
    logs = {one["setting"]: one["log"] for one in split.finding("case")["evidence"]["routers"]}
    for setting, log in logs.items():
        after = [one for one in log if one["code"] is not None]
        assert after[0]["code"] == 13388, setting
        refreshed = [one["logged"] for one in log if one["id"] == 4619901]
        assert refreshed[-1] - after[0]["logged"] > 1.0, setting
    assert any(one["code"] == 304 for one in logs["fine"])
    assert not any(one["code"] == 304 for one in logs["coarse"])


def test_the_text_has_a_table_of_each_operation_through_both_routers(split: Outcome) -> None:
    lines = [" ".join(line.split()) for line in split.out.splitlines()]
    assert f"operation for the {ROUTERS['fine']} (fine) {ROUTERS['coarse']} (coarse)" in lines
    assert any(line.startswith("second update B stale shard waited") for line in lines)
    assert lines[-2] == "as expected: isolated"
    assert lines[-1].startswith("report: ") and lines[-1].endswith("/report.html")


def test_a_stored_record_gives_the_same_verdict(split: Outcome, place: Place) -> None:
    again = place.run("check", str(split.record), "--json")
    assert again.returncode == split.code
    assert json.loads(again.stdout) == {**split.result, "record": str(split.record)}


def test_a_record_from_which_the_coarse_router_is_taken_is_unknown(
    split: Outcome, place: Place, tmp_path: Path
) -> None:
    lines = (split.record / "history.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if f'"router":"{ROUTERS["coarse"]}"' not in line]
    assert len(kept) < len(lines)
    (tmp_path / "history.jsonl").write_text("".join(kept))
    again = place.run("check", str(tmp_path), "--quiet")
    assert again.returncode == exits.UNKNOWN
    assert "no coarse router was asked" in again.stdout


def test_an_empty_error_invalidates_one_shard_and_not_the_collection(place: Place) -> None:
    done = run(place, "--case", "dummy-error")
    assert done.code == exits.AS_EXPECTED, done.out + done.err
    assert codes(done, "fine") == {"probe B": 304}


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_every_case_is_as_expected(place: Place) -> None:
    done = place.start("run", "stale-shard", "--suite", "cases", "--findings", "found.md")
    out, err = done.communicate(timeout=800)
    assert done.returncode == exits.AS_EXPECTED, out + err
    assert "**" not in (place.root / "found.md").read_text()
