"""The recovery checker: proven, healed, recovered, and how soon the streams moved again."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import recovery
from harness.history import INTERRUPTED
from history_builder import RELEASE, a_run, judged, without

STALL = {"s1": [(6.3, 19.1)], "s2": [(6.3, 20.1)]}


def test_a_fault_that_was_proven_healed_and_recovered_from_is_valid() -> None:
    finding = judged(recovery, a_run(silent=STALL).events())
    assert finding.valid is True
    assert finding.evidence["faults"] == [
        {
            "id": "f1",
            "name": "freeze",
            "options": [],
            "target": "shard0-2",
            "opened": 6.0,
            "proven": 6.1,
            "healed": 18.2,
            "not_healed": None,
            "recovered": 19.0,
            "recovery_seconds": pytest.approx(0.8),
            "evidence": {"state": "T"},
        }
    ]


def test_the_time_from_the_release_to_the_first_event_and_to_having_caught_up_is_told() -> None:
    finding = judged(recovery, a_run(silent=STALL).events())
    rows = {row["stream"]: row for row in finding.evidence["streams"]}
    assert rows["s1"]["first_event"] == pytest.approx(19.1 - RELEASE, abs=0.001)
    assert rows["s2"]["caught_up"] == pytest.approx(20.1 - RELEASE, abs=0.001)
    assert rows["s1"]["backlog"] == 118
    assert finding.evidence["slowest_caught_up"] == rows["s2"]["caught_up"]


def test_a_stream_has_caught_up_with_the_last_event_of_its_backlog_and_not_before() -> None:
    history = a_run(streams=["s1"], no_writes=[(6.0, 20.0)])
    for seq in (100, 101, 102):
        history.write(7.0 + seq / 100, "shard0-k0", seq)
        history.event(18.1 + (seq - 99), "s1", "shard0-k0", seq)
    [row] = judged(recovery, history.events()).evidence["streams"]
    assert (row["backlog"], row["first_event"], row["caught_up"]) == (3, 1.0, 3.0)


def test_a_stream_without_a_backlog_had_caught_up_at_the_release() -> None:
    finding = judged(recovery, a_run(no_writes=[(17.9, 18.3)]).events())
    assert finding.evidence["streams"][0]["backlog"] == 0
    assert finding.evidence["streams"][0]["caught_up"] == 0.0


@pytest.mark.parametrize(
    ("times", "doubt"),
    [
        ({"proven": None}, "fault f1 (freeze on shard0-2) was not proven active"),
        ({"healed": None, "recovered": None}, "NOT HEALED: fault f1 (freeze on shard0-2)"),
    ],
)
def test_without_proof_or_healing_nothing_is_known(times: dict[str, Any], doubt: str) -> None:
    finding = judged(recovery, a_run(silent=STALL, **times).events())
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == [doubt]


def test_a_proof_that_is_lost_during_the_hold_is_no_proof() -> None:
    history = a_run(silent=STALL)
    history.add(10.0, "fault.unproven", id="f1", reason="process state S")
    finding = judged(recovery, history.events())
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["fault f1 (freeze on shard0-2) was not proven active: process state S"]
    assert finding.evidence["faults"][0]["proven"] is None


def test_a_cluster_that_does_not_come_back_after_healing_is_broken() -> None:
    finding = judged(recovery, a_run(silent=STALL, recovered=None).events())
    assert finding.valid is False
    assert finding.evidence["problems"] == [
        "fault f1 (freeze on shard0-2) was healed at 18.200 s, but the cluster did not recover"
    ]


def test_a_stream_that_never_moves_again_is_broken() -> None:
    finding = judged(recovery, a_run(streams=["s1"], silent={"s1": [(6.3, 18.5)]}).events())
    assert finding.valid is True
    events = [
        event
        for event in a_run(streams=["s1"]).events()
        if event.kind != "stream.event" or event.seconds < 6.3
    ]  # fmt: skip
    finding = judged(recovery, events)
    assert finding.valid is False
    assert finding.evidence["problems"] == ["stream s1: delivered nothing after the release, 118 events outstanding"]


def test_an_event_lost_on_the_way_does_not_keep_a_stream_from_having_caught_up() -> None:
    events = without(a_run(streams=["s1"], silent=STALL).events(), "stream.event", stream="s1", key="shard0-k0", seq=20)
    assert judged(recovery, events).evidence["streams"][0]["caught_up"] is not None


def test_an_interrupted_run_is_unknown_and_not_broken() -> None:
    finding = judged(recovery, a_run(silent=STALL, recovered=None, ended=INTERRUPTED).events())
    assert finding.valid == "unknown"


def test_a_run_without_a_fault_has_nothing_to_recover_from() -> None:
    finding = judged(recovery, a_run(fault=False).events())
    assert finding.valid is True
    assert finding.evidence["faults"] == []


def test_what_is_still_broken_is_said_before_everything_else() -> None:
    history = a_run(silent=STALL, proven=None, healed=None, recovered=None)
    history.add(18.3, "fault.not_healed", id="f1", reason="it is still stopped")
    finding = judged(recovery, history.events())
    assert finding.evidence["doubts"][0] == "NOT HEALED: fault f1 (freeze on shard0-2): it is still stopped"
    assert finding.evidence["faults"][0]["not_healed"] == "it is still stopped"
