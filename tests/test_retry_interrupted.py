"""`retry-overlap` where a write can be interrupted, by maxTimeMS or killOp, and where it cannot: runs as a user's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aftermath import Place
from harness import exits
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.parameters import build

RETRIED = ("--write", "find-and-modify", "--retry", "fixed(0s,2)")
LIMITED = (*RETRIED, "--driver-option", "socketTimeoutMS=1500")
CUT = (*LIMITED, "--max-time", "700ms")
CUT_IN_TIME = (*RETRIED, "--driver-option", "socketTimeoutMS=6000", "--max-time", "700ms")
"""With as much time between the two as a busy machine may need for an answer."""
EXECUTIONS = 3


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    try:
        yield one
        assert one.left_after() == []
    finally:
        one.end()


def run(place: Place, *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """As expected: its result, the evidence of its findings by name, and what it printed."""
    done = place.run("run", "retry-overlap", *options)
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    (path,) = place.root.glob("runs/*/result.json")
    result: dict[str, Any] = json.loads(path.read_text())
    return result, {one["name"]: one["evidence"] for one in result["findings"]}, done.stdout


def told(evidence: dict[str, Any]) -> list[int]:
    return [evidence["max-time"][name] for name in ("ended_on_first_send", "ended_on_resend", "timed_out")]


def sends(evidence: dict[str, Any]) -> int:
    return int(evidence["overlap"]["totals"]["sends"])


@pytest.mark.live
@pytest.mark.parametrize(
    "fault",
    [
        "lock-wait",
        pytest.param("no-tickets", marks=pytest.mark.slow),
        pytest.param("write-conflict", marks=pytest.mark.slow),
    ],
)
def test_where_the_server_looks_for_interrupts_the_time_limit_leaves_one_send_and_one_copy_and_nothing_written(
    place: Place, fault: str
) -> None:
    result, evidence, printed = run(place, *CUT_IN_TIME, "--fault", fault)
    assert result["outcome"] == "no overlap"
    assert evidence["max-time"]["cut"] == "yes"
    assert told(evidence) == [EXECUTIONS, 0, 0]
    assert sends(evidence) == EXECUTIONS
    assert evidence["max-time"]["copies_at_once"] <= 1
    assert evidence["effects"]["documents"] == evidence["effects"]["effective"] == 0
    assert "ended each of 3 executions in the server: error 50 after one send" in " ".join(printed.split())


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "lock-wait",
        pytest.param("no-tickets", marks=pytest.mark.matrix),
        pytest.param("write-conflict", marks=pytest.mark.matrix),
    ],
)
def test_without_a_time_limit_the_same_waits_pile_up_copies_that_all_take_effect(place: Place, fault: str) -> None:
    result, evidence, _printed = run(place, *LIMITED, "--fault", fault)
    assert result["outcome"] == "maximum"
    assert sends(evidence) == 2 * EXECUTIONS
    assert evidence["effects"]["effective"] == EXECUTIONS


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "by_resend", "timed_out"),
    [
        (("--fault", "fail-command"), 0, EXECUTIONS),
        (("--fault", "fail-point"), EXECUTIONS, 0),
        pytest.param(("--fault", "freeze", "--hold", "12s"), 0, EXECUTIONS, marks=pytest.mark.matrix),
        pytest.param(
            ("--fault", "write-conflict", "--fault-option", "ids=orders/0/0"), EXECUTIONS, 0, marks=pytest.mark.matrix
        ),
    ],
)
def test_where_it_does_not_the_time_limit_cuts_nothing_and_the_report_says_so(
    place: Place, options: tuple[str, ...], by_resend: int, timed_out: int
) -> None:
    expect = ("--expect", "maximum") if "write-conflict" in options else ()
    _result, evidence, printed = run(place, *CUT, *options, *expect)
    assert evidence["max-time"]["cut"] == "no"
    assert told(evidence) == [0, by_resend, timed_out]
    assert sends(evidence) == 2 * EXECUTIONS
    assert "did not end the writes" in printed


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("write", ["update-many", pytest.param("delete-many", marks=pytest.mark.matrix)])
def test_writes_on_many_documents_that_are_killed_midway_stay_done_in_part(place: Place, write: str) -> None:
    options = ("--write", write, "--fault", "hang-in-yield", "--release", "kill-op", "--retry", "fixed(0s,2)")
    _result, evidence, printed = run(place, *options)
    assert sends(evidence) == EXECUTIONS
    assert evidence["effects"]["partial"] == EXECUTIONS
    assert printed.count("killed on rs0-0 (write orders/0/0)") == EXECUTIONS
    assert "write orders/0/0 done in part: " in printed


@pytest.mark.live
@pytest.mark.slow
def test_a_write_that_nobody_waits_for_is_lost_with_its_connection_and_only_tap_and_fail_point_have_seen_it(
    place: Place,
) -> None:
    closing = ("commands=insert", "closeConnection=yes", "namespace=watched")
    options = [text for one in closing for text in ("--fault-option", one)]
    _result, evidence, printed = run(place, "--write", "w0", "--fault", "fail-command", *options)
    assert evidence["effects"]["lost_unacknowledged"] == 1
    (read,) = [one for one in evidence["counts"]["checks"] if one["term"] == "read by the server"]
    assert (read["figures"]["tap"], read["figures"]["counters"], read["figures"]["rejected"]) == (1, 0, 1)
    assert "1 at the tap + 0 of the server's own = 0 in its counters + 1 rejected by fail points" in printed


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [("lock-wait", 2.1), ("fail-point", 6.6), ("fail-command", 9.0)],
)
def test_the_time_until_the_application_gives_up_is_by_where_the_server_looks_at_the_time_limit(
    fault: str, seconds: float
) -> None:
    given = {
        "fault": fault,
        "write": "find-and-modify",
        "max_time": "700ms",
        "retry": "fixed(0s,2)",
        "driver_option": ["socketTimeoutMS=1500"],
    }
    assert build(OverlapParameters, given).prediction.give_up == seconds
