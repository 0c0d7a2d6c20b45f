"""The stall checker: what became of each stream, and the evidence that goes with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checkers import alarms, stall
from harness.checkers.finding import Finding
from harness.history import Event
from history_builder import RELEASE, History, Span, a_run, judged


def _rows(finding: Finding) -> dict[str, dict[str, Any]]:
    return {row["stream"]: row for row in finding.evidence["streams"]}


def _check(history: History) -> Finding:
    return judged(stall, history.events())


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [
        ([(6.3, 18.5)], "stalled"),
        ([(12.0, 18.5)], "stalled"),
        ([(6.05, RELEASE + 3)], "stalled"),
        ([(15.5, 18.5)], "no effect"),
        ([], "no effect"),
        ([(6.3, 8.9)], "no effect"),
        ([(6.3, 11.3)], "bounded"),
        ([(6.3, 11.3), (11.6, 14.8)], "bounded"),
        ([(6.3, 11.3), (11.4, 16.2), (16.3, 18.2)], "bounded"),
        ([(6.3, 11.8), (12.0, 17.3)], "bounded"),
        ([(6.3, 9.5), (9.6, 18.5)], "stalled"),
        ([(6.3, 11.8), (12.8, 18.2)], "bounded"),
        ([(1.5, 4.9)], "no effect"),
        ([(18.2, 24.0)], "no effect"),
    ],
)
def test_the_outcome_of_a_stream_follows_from_its_silences(spans: list[Span], outcome: str) -> None:
    finding = _check(a_run(silent={"s1": spans}))
    assert {name: row["outcome"] for name, row in _rows(finding).items()} == {"s1": outcome, "s2": "no effect"}
    assert finding.valid is (outcome != "stalled")


def test_a_stalled_stream_is_reported_with_since_when_and_what_part_of_the_hold() -> None:
    finding = _check(a_run(silent={"s1": [(6.3, 18.5)]}))
    row = _rows(finding)["s1"]
    # The write of 6.2 s was delivered at 6.22; that of 6.3 s, acknowledged at 6.31, is the first one owed.
    assert row["silent_since"] == pytest.approx(6.31)
    assert row["silent_seconds"] == pytest.approx(RELEASE - 6.31)
    assert row["share_of_hold"] == pytest.approx((RELEASE - 6.31) / 12, abs=0.001)
    assert row["ended_by"] == "release"
    assert row["outstanding"] == 118
    assert row["error_count"] == 0
    assert finding.evidence["counts"] == {"stalled": 1, "no effect": 1}


def test_a_silence_that_nothing_ended_is_stalled_and_says_so() -> None:
    row = _rows(_check(a_run(silent={"s1": [(6.3, 40.0)]}, ended="interrupted")))["s1"]
    assert row["outcome"] == "stalled"
    history = a_run(writes_until=10.0)
    events = [event for event in history.events() if event.kind != "stream.event" or event.seconds < 7.0]
    assert _rows(judged(stall, events))["s1"]["ended_by"] is None


def test_the_part_of_a_silence_before_the_fault_was_proven_is_not_counted_into_the_hold() -> None:
    row = _rows(_check(a_run(silent={"s1": [(6.02, 18.5)]}, proven=8.0)))["s1"]
    assert row["silent_since"] < 6.2
    assert row["silent_seconds"] == pytest.approx(RELEASE - 8.0)
    assert row["share_of_hold"] == 1.0


def test_a_stream_without_outstanding_marks_is_quiet_and_not_stalled() -> None:
    rows = _rows(_check(a_run(no_writes=[(6.0, 18.2)])))
    assert rows["s1"]["outcome"] == "no effect"
    assert rows["s1"]["silent_since"] is None
    assert rows["s1"]["outstanding"] == 0
    assert rows["s1"]["delivered_in_hold"] == 0


def test_writes_of_unknown_outcome_and_writes_from_before_the_opening_are_no_marks() -> None:
    history = a_run(streams=["s1"], no_writes=[(6.0, 18.2)])
    history.write(7.0, "shard0-k9", 1, outcome="unknown")
    history.write(0.99, "shard0-k8", 1, after=6.0)
    assert _rows(_check(history))["s1"]["outcome"] == "no effect"


def test_an_event_that_is_lost_for_good_is_no_silence() -> None:
    history = a_run(streams=["s1"], no_writes=[(6.0, 18.2)])
    events = [event for event in history.events() if not (event.kind == "stream.event" and event["seq"] == 5)]
    assert _rows(judged(stall, events))["s1"]["outcome"] == "no effect"


def test_an_error_during_the_hold_outweighs_the_silence_and_is_given_with_its_code() -> None:
    history = a_run(silent={"s1": [(6.3, 18.5)], "s2": [(6.3, 18.5)]})
    for t in (16.0, 17.0):
        history.add(
            t,
            "stream.error",
            stream="s1",
            error="OperationFailure: no connection",
            code=202,
            code_name="NetworkInterfaceExceededTimeLimit",
            where="next",
        )
    finding = _check(history)
    row = _rows(finding)["s1"]
    assert row["outcome"] == "error surfaced"
    assert row["errors"] == [
        {
            "code": 202,
            "code_name": "NetworkInterfaceExceededTimeLimit",
            "error": "OperationFailure: no connection",
            "count": 2,
        }
    ]
    assert row["silent_seconds"] > 11
    assert finding.evidence["counts"] == {"stalled": 1, "error surfaced": 1}


@pytest.mark.parametrize("t", [5.9, 18.3])
def test_an_error_outside_of_the_hold_is_not_the_outcome(t: float) -> None:
    history = a_run(silent={"s1": [(6.3, 18.5)]})
    history.add(t, "stream.error", stream="s1", error="AutoReconnect: gone", code=None, where="next")
    assert _rows(_check(history))["s1"]["outcome"] == "stalled"


def test_lag_of_our_own_event_loop_is_taken_off_a_silence() -> None:
    history = a_run(silent={"s1": [(6.3, 10.0)]})
    assert _rows(_check(history))["s1"]["outcome"] == "bounded"
    history.add(8.0, "loop.lag", seconds=0.9)
    assert _rows(_check(history))["s1"]["outcome"] == "no effect"


def test_on_an_overloaded_cluster_deliveries_may_take_as_much_longer_as_writes_and_hellos_do() -> None:
    history = a_run(silent={"s1": [(6.3, 10.0)]})
    history.add(7.0, "canary", member="shard0-2", probe="hello", ok=False, seconds=2.0)
    history.add(7.0, "canary", member="shard0-0", probe="find", ok=True, seconds=1.0)
    history.add(7.0, "canary", member="shard0-0", probe="hello", ok=True, seconds=0.01)
    assert _rows(_check(history))["s1"]["outcome"] == "bounded"
    slow = a_run(silent={"s1": [(6.3, 10.0)]})
    slow.add(7.0, "canary", member="shard0-0", probe="hello", ok=True, seconds=0.2)
    slow.add(8.0, "canary", member="shard0-0", probe="hello", ok=True, seconds=0.1)
    assert _rows(_check(slow))["s1"]["outcome"] == "no effect"


def test_however_slow_the_machine_a_getmore_that_hangs_until_the_release_is_a_stall() -> None:
    def overloaded() -> History:
        history = a_run(silent={"s1": [(6.3, 18.5)]})
        history.add(7.0, "canary", member="shard0-0", probe="hello", ok=True, seconds=1.5)
        return history

    assert _rows(_check(overloaded()))["s1"]["outcome"] == "no effect"
    seen = overloaded()
    seen.add(17.0, "getmore", "currentOp", member="shard0-1", opid=1, seconds=10.0, max_time_ms=1000, stream="s1")
    row = _rows(_check(seen))["s1"]
    assert (row["outcome"], row["silent_seconds"] > 11, row["proven_seconds"] < 3) == ("stalled", True, True)
    # The watchers make the same allowance, and had no cause for an alarm.
    assert judged(alarms, seen.events()).valid is True
    soon_over = a_run(silent={"s1": [(6.3, 12.0)]})
    soon_over.add(7.0, "canary", member="shard0-0", probe="hello", ok=True, seconds=1.5)
    soon_over.add(11.0, "getmore", "currentOp", member="shard0-1", opid=1, seconds=4.0, max_time_ms=1000, stream="s1")
    assert _rows(_check(soon_over))["s1"]["outcome"] == "no effect"


def test_a_stream_that_was_silent_before_the_fault_proves_nothing() -> None:
    finding = _check(a_run(silent={"s1": [(2.0, 18.5)]}))
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["stream s1 was already silent for 3.89 s when the fault began"]


def test_a_stream_that_was_not_open_when_the_fault_began_is_not_judged() -> None:
    history = a_run()
    history.opened(7.0, "s3")
    finding = _check(history)
    assert finding.valid == "unknown"
    assert "s3" not in _rows(finding)
    assert finding.evidence["doubts"] == ["stream s3 was not open when the fault began"]


def test_without_a_fault_there_is_nothing_to_judge_unless_none_was_asked_for() -> None:
    asked_for = _check(a_run(fault=False, parameters={"fault": "freeze"}))
    assert asked_for.valid == "unknown"
    assert asked_for.evidence["doubts"] == ["no fault was held"]
    none = _check(a_run(fault=False))
    assert none.valid is True
    assert none.evidence["counts"] == {"no effect": 2}


def test_a_hold_no_longer_than_the_threshold_cannot_show_a_stall() -> None:
    finding = _check(a_run(parameters={"threshold": 12.0}))
    assert finding.valid == "unknown"
    assert "no longer than the stall threshold" in finding.evidence["doubts"][0]


def test_the_threshold_is_that_of_the_run() -> None:
    history = a_run(silent={"s1": [(6.3, 11.3)]}, parameters={"threshold": 6.0})
    assert _rows(_check(history))["s1"]["outcome"] == "no effect"


def test_a_hold_without_a_release_ends_with_the_record() -> None:
    events: list[Event] = []
    for event in a_run(silent={"s1": [(6.3, 18.5)]}, ended=None).events():
        if event.seconds >= 15.0:
            break
        events.append(event)
    row = _rows(judged(stall, events))["s1"]
    assert row["outcome"] == "stalled"
    assert row["ended_by"] is None
    assert row["silent_seconds"] == pytest.approx(15.0 - 6.31, abs=0.2)


def test_of_two_holds_the_graver_outcome_counts() -> None:
    history = a_run(silent={"s1": [(6.3, 18.3)], "s2": [(20.0, 22.9)]}, writes_until=24.0)
    history.add(19.5, "fault.opened", id="f2", fault="freeze", target="shard1-2")
    history.add(19.6, "fault.proven", id="f2")
    history.add(24.0, "fault.healed", id="f2")
    rows = _rows(_check(history))
    assert (rows["s1"]["outcome"], rows["s2"]["outcome"]) == ("stalled", "no effect")
    assert rows["s1"]["silent_since"] == pytest.approx(6.31)


def test_the_longest_hanging_getmore_is_evidence_and_currentop_goes_before_the_router() -> None:
    history = a_run(silent={"s1": [(6.3, 18.5)]})
    for t, opid, seconds, source in [
        (5.0, 1, 99.0, "currentOp"),
        (8.0, 7, 1.9, "currentOp"),
        (12.0, 7, 5.9, "currentOp"),
        (17.5, 7, 11.2, "currentOp"),
        (17.9, 7, 3.0, "currentOp"),
        (18.0, 3, 11.7, "router"),
        (10.0, 8, 0.4, "currentOp"),
    ]:
        history.add(t, "getmore", source, member="shard0-1", opid=opid, seconds=seconds, max_time_ms=1000, stream="s1")
    history.add(9.0, "getmore", "currentOp", member="shard0-1", opid=8, seconds=0.9, max_time_ms=1000, stream="s2")
    history.add(9.0, "getmore", "currentOp", member="shard0-1", opid=9, seconds=8.0, max_time_ms=1000, stream=None)
    rows = _rows(_check(history))
    assert rows["s1"]["getmore"] == {
        "member": "shard0-1",
        "opid": 7,
        "seconds": 11.2,
        "max_time_ms": 1000,
        "source": "currentOp",
    }
    assert rows["s2"]["getmore"] is None


def test_whom_a_stream_waits_for_is_taken_from_pools_then_lookups_then_the_alarm() -> None:
    history = a_run(streams=["s1"], silent={"s1": [(6.3, 18.5)]})

    def known() -> tuple[Any, Any]:
        row = _rows(_check(history))["s1"]
        return row["waits_for"], row["known_by"]

    assert known() == (None, None)
    history.add(9.0, "getmore", "currentOp", member="shard0-1", opid=7, seconds=8.0, max_time_ms=1000, stream="s1")
    assert known() == (None, None)
    history.add(9.0, "pool", member="shard0-1", towards="shard0-0", in_use=1)
    history.add(9.0, "pool", member="shard0-1", towards="shard0-2", in_use=4)
    history.add(9.0, "pool", member="shard1-1", towards="shard1-2", in_use=9)
    assert known() == ("shard0-2", "connPoolStats")
    history.add(9.0, "lookup", member="shard0-3", opid=5, seconds=3.0, stream="s1")
    assert known() == ("shard0-3", "currentOp")
    history.add(9.5, "alarm", stream="s1", since=0, waits_for="shard0-4", known_by="canary")
    assert known() == ("shard0-4", "canary")


def test_empty_batches_while_silent_are_counted() -> None:
    history = a_run(silent={"s1": [(6.3, 18.5)]})
    for number in range(20):
        history.add(3.05 + number, "stream.empty", stream="s1", alive=True)
    rows = _rows(_check(history))
    assert rows["s1"]["empty_batches"] == 12
    assert rows["s2"]["empty_batches"] == 0


def test_the_sentence_about_a_stalled_stream_tells_it_all() -> None:
    history = a_run(silent={"s1": [(6.3, 18.5)]})
    history.add(18.0, "getmore", "currentOp", member="shard0-1", opid=7, seconds=11.2, max_time_ms=1000, stream="s1")
    history.add(9.5, "alarm", stream="s1", since=0, waits_for="shard0-2", known_by="connPoolStats")
    assert _check(history).evidence["problems"] == [
        "stream s1: silent since 6.310 s, for 11.8 s (98%) of the hold, 118 acknowledged writes undelivered, "
        "0 empty batches, no error; getMore 7 on shard0-1 ran 11.2 s against maxTimeMS 1000; "
        "waits for shard0-2 (known by connPoolStats)"
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(2.0, 24.0), st.booleans()), max_size=12))
def test_a_stream_that_owes_nothing_is_never_stalled(lines: list[tuple[float, bool]]) -> None:
    """Writes that are delivered before they are acknowledged leave no mark, whatever else happens, however long."""
    history = a_run(streams=["s1"], no_writes=[(0.0, 25.0)])
    for number, (t, empty) in enumerate(lines):
        if empty:
            history.add(t, "stream.empty", stream="s1", alive=True)
        else:
            history.write(t, f"k{number}", 1, after=0.01)
            history.event(t + 0.005, "s1", f"k{number}", 1)
    row = _rows(_check(history))["s1"]
    assert row["outcome"] == "no effect"
    assert row["silent_since"] is None


@settings(max_examples=40, deadline=None)
@given(st.floats(6.1, 14.0), st.floats(18.2, 24.0))
def test_any_silence_from_within_the_hold_past_the_release_is_a_stall(start: float, end: float) -> None:
    row = _rows(_check(a_run(streams=["s1"], silent={"s1": [(start, end)]})))["s1"]
    assert row["outcome"] == "stalled"
    assert start - 0.2 <= row["silent_since"] <= start + 0.2
