"""The traffic and course checkers: what a run must have been to prove anything."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import course, traffic
from harness.history import INTERRUPTED, RUN_FAILED
from history_builder import Span, a_run, judged, without


def test_enough_traffic_is_valid_and_counted_by_shard() -> None:
    finding = judged(traffic, a_run(silent={"s1": [(6.3, 18.5)]}).events())
    assert finding.valid is True
    assert finding.evidence["writes_before"] == {"shard0": 24, "shard1": 24}
    assert finding.evidence["writes_in_hold"] == {"shard0": 60, "shard1": 60}
    assert finding.evidence["fewest_events_before"] == 48


@pytest.mark.parametrize(
    ("no_writes", "doubt"),
    [
        ([(0.0, 30.0)], "no write was acknowledged"),
        ([(6.0, 18.2)], "shard shard0: 0 writes acknowledged during the hold, at least 5 needed"),
        ([(6.0, 17.75)], "shard shard0: 2 writes acknowledged during the hold, at least 5 needed"),
        ([(0.0, 5.55)], "shard shard0: 2 writes acknowledged before the break, at least 5 needed"),
    ],
)
def test_too_few_writes_prove_nothing(no_writes: list[Span], doubt: str) -> None:
    finding = judged(traffic, a_run(no_writes=no_writes).events())
    assert finding.valid == "unknown"
    assert doubt in finding.evidence["doubts"]


def test_a_shard_that_was_never_written_to_is_missed_if_its_number_is_known() -> None:
    finding = judged(traffic, a_run(parameters={"shards": 3}).events())
    assert finding.evidence["doubts"] == ["writes were acknowledged on 2 of 3 shards only"]


def test_a_stream_that_delivered_too_little_before_the_break_proves_nothing() -> None:
    finding = judged(traffic, a_run(silent={"s2": [(1.4, 5.99)]}, parameters={"minimum_events": 50}).events())
    assert finding.evidence["doubts"] == [
        "stream s1: 48 events delivered before the break, at least 50 needed",
        "stream s2: 48 events delivered before the break, at least 50 needed",
    ]
    finding = judged(traffic, a_run(silent={"s2": [(1.4, 6.5)]}).events())
    assert finding.evidence["doubts"] == ["stream s2: 2 events delivered before the break, at least 3 needed"]


def test_writes_of_unknown_outcome_are_no_traffic() -> None:
    events = without(a_run().events(), "write.ok")
    assert judged(traffic, events).evidence["doubts"][0] == "no write was acknowledged"


def test_a_run_that_means_not_to_write_during_the_hold_need_not() -> None:
    history = a_run(no_writes=[(6.0, 18.2)], parameters={"traffic": False})
    assert judged(traffic, history.events()).valid is True


def test_the_minima_are_the_runs_own() -> None:
    history = a_run(no_writes=[(0.0, 30.0)], parameters={"minimum_writes": 0, "minimum_events": 0})
    assert judged(traffic, history.events()).valid is True


def test_a_run_that_went_its_whole_way_is_valid() -> None:
    finding = judged(course, a_run().events())
    assert finding.valid is True
    assert finding.evidence["expected"] == ["stalled"]


def test_findings_at_the_end_of_a_run_do_not_wait_for_the_last_line() -> None:
    """A run is checked in its check phase, before run.ended is written; the stored record must say the same."""
    assert judged(course, a_run(ended=None).events()).valid is True


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"ended": INTERRUPTED}, "the run was interrupted after 25.500 s"),
        ({"ended": RUN_FAILED}, "the run failed after 25.500 s"),
        ({"fault": False, "parameters": {"fault": "freeze"}}, "fault freeze was asked for and never opened"),
        ({"healed": 9.1, "recovered": 10.0}, "the hold lasted 3.0 s instead of 12.0 s"),
    ],
)
def test_a_run_that_did_not_is_unknown(changes: dict[str, Any], doubt: str) -> None:
    finding = judged(course, a_run(**changes).events())
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == [doubt]


def test_a_record_that_breaks_off_says_where() -> None:
    events = [event for event in a_run().events() if event.seconds < 12.0]
    [doubt] = judged(course, events).evidence["doubts"]
    assert doubt == "the record ends at 11.920 s in phase hold, without run.ended"


def test_a_record_without_its_beginning_is_unknown() -> None:
    finding = judged(course, without(a_run().events(), "run.started"))
    assert finding.evidence["doubts"] == ["the record has no run.started"]


def test_an_empty_record_is_unknown() -> None:
    finding = judged(course, [])
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["the record ends at 0.000 s before the first phase, without run.ended"]
