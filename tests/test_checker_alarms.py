"""The alarms checker: detected, missed, false, and how late."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import alarms
from harness.measures import UNANSWERED
from history_builder import History, a_run, judged

STALL = {"s1": [(6.3, 18.5)]}
"""s1 owes its first mark from 6.31 s on; with a threshold of 3 s it is silent from 9.31 s on."""


def _alarmed(history: History, *times: float, stream: str = "s1", **fields: Any) -> History:
    for t in times:
        history.add(t, "alarm", stream=stream, since=round(6.31e9), **fields)
    return history


def test_an_alarm_during_the_stall_detects_it_and_its_delay_counts_from_the_threshold() -> None:
    history = _alarmed(a_run(silent=STALL), 9.9, waits_for="shard0-2", known_by="connPoolStats", canary={"ok": False})
    finding = judged(alarms, history.events())
    assert finding.valid is True
    assert finding.evidence["streams"] == [
        {
            "stream": "s1",
            "outcome": "stalled",
            "detected": True,
            "at": 9.9,
            "delay": pytest.approx(0.59),
            "since_claimed": 6.31,
            "waits_for": "shard0-2",
            "known_by": "connPoolStats",
            "canary": {"ok": False},
        }
    ]
    assert finding.evidence["longest_delay"] == pytest.approx(0.59)


def test_a_stalled_stream_without_an_alarm_is_missed() -> None:
    finding = judged(alarms, a_run(silent=STALL).events())
    assert finding.valid is False
    assert (finding.evidence["detected"], finding.evidence["missed"]) == (0, 1)
    assert finding.evidence["problems"] == ["stream s1: stalled since 6.310 s, no alarm before the release"]


def test_a_silence_that_left_no_time_to_report_it_is_not_missed() -> None:
    finding = judged(alarms, a_run(silent={"s1": [(14.0, 18.5)]}).events())
    assert finding.valid is True
    assert finding.evidence["streams"][0]["detected"] is False


def test_an_alarm_after_the_release_came_too_late() -> None:
    finding = judged(alarms, _alarmed(a_run(silent={"s1": [(6.3, 20.0)]}), 18.9).events())
    assert (finding.evidence["missed"], finding.evidence["false"]) == (1, 0)


def test_an_alarm_on_a_getmore_without_an_answer_is_not_held_against_what_the_stream_owed() -> None:
    history = a_run()
    history.add(9.0, "alarm", source=UNANSWERED, stream="s1", since=round(8e9))
    assert judged(alarms, history.events()).valid is True
    history.add(9.0, "alarm", stream="s1", since=round(8e9))
    assert judged(alarms, history.events()).evidence["false"] == 1


def test_a_run_without_stalls_and_alarms_is_valid() -> None:
    assert judged(alarms, a_run().events()).valid is True


def test_an_alarm_on_a_stream_that_was_bounded_is_neither_demanded_nor_false() -> None:
    history = a_run(silent={"s1": [(6.3, 11.0)]})
    assert judged(alarms, history.events()).valid is True
    finding = judged(alarms, _alarmed(history, 9.9).events())
    assert finding.valid is True
    assert finding.evidence["detected"] == 1


@pytest.mark.parametrize(
    ("silent", "t", "problem"),
    [
        ({}, 10.0, "although it was not silent"),
        (STALL, 7.0, "although it was not silent"),
        ({"s1": [(6.3, 11.0)]}, 12.5, "although it was not silent"),
        ({"s1": [(2.0, 5.8)]}, 5.5, "outside of any fault"),
        ({"s1": [(20.0, 24.0)]}, 23.5, "outside of any fault"),
    ],
)
def test_an_alarm_without_a_silence_under_a_fault_is_false(silent: Any, t: float, problem: str) -> None:
    history = _alarmed(a_run(silent=silent, writes_until=24.5), t)
    finding = judged(alarms, history.events())
    assert finding.valid is False
    assert finding.evidence["false"] == 1
    assert any(problem in each for each in finding.evidence["problems"])


def test_an_alarm_recorded_just_after_its_silence_ended_is_not_false() -> None:
    history = _alarmed(a_run(silent={"s1": [(6.3, 9.6)]}), 9.9)
    assert judged(alarms, history.events()).valid is True


def test_an_alarm_after_the_release_on_a_stream_still_silent_is_not_false() -> None:
    history = _alarmed(a_run(silent={"s1": [(6.3, 21.5)]}, recovered=None), 9.9, 20.9)
    assert judged(alarms, history.events()).valid is True


def test_a_false_alarm_that_is_completed_is_one_false_alarm() -> None:
    history = _alarmed(a_run(), 10.0)
    _alarmed(history, 10.4, waits_for="shard0-2", update=True)
    assert judged(alarms, history.events()).evidence["false"] == 1


def test_in_a_run_without_a_fault_every_alarm_is_false() -> None:
    history = _alarmed(a_run(silent={"s1": [(6.3, 11.0)]}, fault=False), 9.9)
    finding = judged(alarms, history.events())
    assert finding.evidence["problems"] == ["stream s1: alarm at 9.900 s in a run without a fault"]


def test_an_early_false_alarm_does_not_count_as_the_detection_of_a_later_stall() -> None:
    history = _alarmed(a_run(silent={"s1": [(12.0, 18.5)]}), 7.0)
    finding = judged(alarms, history.events())
    assert (finding.evidence["missed"], finding.evidence["false"]) == (1, 1)


def test_an_alarm_completed_later_counts_once_with_the_time_of_the_first_and_the_name_of_the_last() -> None:
    history = _alarmed(a_run(silent=STALL), 9.9, waits_for=None)
    _alarmed(history, 11.0, waits_for="shard0-2", known_by="connPoolStats", update=True)
    finding = judged(alarms, history.events())
    assert finding.valid is True
    [row] = finding.evidence["streams"]
    assert (row["at"], row["waits_for"]) == (9.9, "shard0-2")
