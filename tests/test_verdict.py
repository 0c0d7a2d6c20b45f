"""The verdict: observed against expected, what makes it unknown, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import exits, verdict
from harness.checkers import Context, Finding, run_checkers
from harness.history import INTERRUPTED, RUN_FAILED, Event, Recorder, read
from harness.verdict import Verdict, check_history, judge
from history_builder import History, a_run, without

BOTH = {"s1": [(6.3, 18.5)], "s2": [(6.4, 18.9)]}


def _stalled(**changes: Any) -> History:
    """Both streams silent for the hold, both alarmed in time."""
    history = a_run(**{"silent": BOTH, **changes})
    for stream in BOTH:
        history.add(9.8, "alarm", stream=stream, since=round(6.4e9), waits_for="shard0-2", known_by="canary")
    return history


def _verdict(events: list[Event]) -> Verdict:
    return check_history(events)[1]


def test_what_was_expected_and_proven_is_as_expected() -> None:
    found = _verdict(_stalled().events())
    assert found.verdict == "as expected"
    assert found.exit_code == exits.AS_EXPECTED
    assert found.outcome == "stalled"
    assert found.counts == {"stalled": 2}
    assert found.reasons == ()
    assert found.headline == "as expected: stalled (2 of 2 stalled)"


def test_an_expected_defect_that_no_longer_shows_is_not_as_expected() -> None:
    found = _verdict(a_run().events())
    assert found.verdict == "not as expected"
    assert found.exit_code == exits.NOT_AS_EXPECTED
    assert found.outcome == "no effect"
    assert found.reasons == ("expected stalled, observed 2 no effect of 2 streams",)


@pytest.mark.parametrize(
    ("expected", "word"),
    [
        (["stalled"], "not as expected"),
        (["error surfaced"], "not as expected"),
        (["stalled", "error surfaced"], "as expected"),
        (["mixed"], "as expected"),
        (["bounded", "mixed"], "as expected"),
    ],
)
def test_of_mixed_outcomes_each_must_be_among_those_expected(expected: list[str], word: str) -> None:
    history = _stalled(expected=expected)
    history.add(17.0, "stream.error", stream="s2", error="OperationFailure: no", code=202, where="next")
    found = _verdict(history.events())
    assert found.outcome == "mixed"
    assert found.counts == {"stalled": 1, "error surfaced": 1}
    assert found.verdict == word


def test_without_an_expectation_nothing_is_as_expected() -> None:
    found = _verdict(_stalled(expected=[]).events())
    assert found.verdict == "unknown"
    assert found.reasons == ("no outcome was expected, so none can be as expected",)


def test_an_expectation_given_goes_before_the_one_recorded() -> None:
    context = Context(hold=12.0, fault="freeze", expected=frozenset({"bounded"}))
    assert check_history(_stalled().events(), context)[1].verdict == "not as expected"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"proven": None}, "recovery: fault f1 (freeze on shard0-2) was not proven active"),
        ({"healed": None, "recovered": None}, "recovery: NOT HEALED: fault f1 (freeze on shard0-2)"),
        ({"no_writes": [(6.5, 17.9)]}, "traffic: shard shard0: "),
        ({"ended": RUN_FAILED}, "course: the run failed"),
        ({"fault": False, "parameters": {"fault": "freeze"}}, "course: fault freeze was asked for and never opened"),
    ],
)
def test_what_could_not_be_established_is_unknown_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    found = _verdict(_stalled(**changes).events())
    assert found.verdict == "unknown"
    assert found.exit_code == exits.UNKNOWN
    assert any(each.startswith(reason) for each in found.reasons)


def test_an_unproven_fault_is_unknown_also_where_the_outcome_is_the_one_expected() -> None:
    found = _verdict(a_run(proven=None, expected=["no effect"]).events())
    assert (found.outcome, found.verdict) == ("no effect", "unknown")


def test_a_failed_bring_up_is_unknown() -> None:
    history = History()
    history.add(0.0, "run.started", parameters={"fault": "freeze"}, expected=["stalled"])
    history.phases(bring_up=0.1)
    history.add(3.0, "run.ended", reason=RUN_FAILED, detail="shard0-1 died: no space left")
    found = _verdict(history.events())
    assert (found.verdict, found.outcome, found.exit_code) == ("unknown", "none", 2)
    assert found.reasons == ("course: the run failed after 3.000 s: shard0-1 died: no space left",)
    assert found.headline == "unknown: the run failed after 3.000 s: shard0-1 died: no space left"


def test_an_interrupted_run_is_unknown_with_an_exit_code_of_its_own() -> None:
    found = _verdict(_stalled(ended=INTERRUPTED).events())
    assert (found.outcome, found.counts) == ("none", {})
    assert (found.verdict, found.exit_code) == ("unknown", exits.INTERRUPTED)


def test_a_lost_event_is_not_as_expected_and_named() -> None:
    events = without(_stalled().events(), "stream.event", stream="s2", key="shard1-k0", seq=7)
    found = _verdict(events)
    assert found.verdict == "not as expected"
    assert found.reasons == ("delivery: stream s2: event (key 'shard1-k0', seq 7) missing; acknowledged at 4.110 s",)


def test_a_lost_event_outweighs_what_could_not_be_established() -> None:
    events = without(_stalled(proven=None).events(), "stream.event", stream="s2", key="shard1-k0", seq=7)
    found = _verdict(events)
    assert found.verdict == "not as expected"
    assert found.reasons[0].startswith("delivery: ")
    assert found.reasons[1].startswith("recovery: ")


def test_a_missed_alarm_is_not_as_expected() -> None:
    found = _verdict(without(_stalled().events(), "alarm", stream="s1"))
    assert found.verdict == "not as expected"
    assert found.reasons == ("alarms: stream s1: stalled since 6.310 s, no alarm before the release",)


def test_a_false_alarm_is_not_as_expected() -> None:
    history = _stalled()
    history.add(4.0, "alarm", stream="s1", since=round(1e9))
    assert _verdict(history.events()).reasons == ("alarms: stream s1: alarm at 4.000 s outside of any fault",)


def test_a_cluster_left_broken_is_not_as_expected() -> None:
    found = _verdict(_stalled(recovered=None).events())
    assert found.verdict == "not as expected"
    assert found.reasons[0].startswith("recovery: fault f1")


def test_a_run_without_fault_and_without_alarm_has_no_effect_as_expected() -> None:
    assert _verdict(a_run(fault=False, expected=["no effect"]).events()).verdict == "as expected"


def test_a_quiet_run_without_traffic_in_the_hold_is_judged_too() -> None:
    history = a_run(fault=False, no_writes=[(6.0, 18.2)], parameters={"traffic": False}, expected=["no effect"])
    assert _verdict(history.events()).verdict == "as expected"


def test_a_timeout_that_never_fires_does_not_change_the_verdict() -> None:
    history = _stalled(parameters={"driver_option": ["socketTimeoutMS=3000"]})
    findings, found = check_history(history.events())
    assert next(each for each in findings if each.name == "timeouts").valid is False
    assert found.verdict == "as expected"


def test_a_checker_that_is_left_out_makes_the_verdict_unknown() -> None:
    findings = [each for each in run_checkers(_stalled().events()) if each.name != "traffic"]
    found = judge(findings, {"stalled"})
    assert (found.verdict, found.reasons) == ("unknown", ("traffic: not checked",))
    assert judge([], {"stalled"}).verdict == "unknown"


def test_a_finding_that_is_not_valid_without_naming_problems_gives_its_statement() -> None:
    findings = [each for each in run_checkers(_stalled().events()) if each.name != "delivery"]
    found = judge([*findings, Finding("delivery", False, "All is delivered.")], {"stalled"})
    assert found.reasons == ("delivery: All is delivered.",)


def test_findings_and_rows_are_json_and_one_row_stands_for_each_stream() -> None:
    findings = run_checkers(_stalled().events())
    json.dumps([finding.evidence for finding in findings], allow_nan=False)
    rows = verdict.stream_rows(findings)
    assert [row["stream"] for row in rows] == ["s1", "s2"]
    assert rows[0]["outcome"] == "stalled"
    assert rows[0]["alarm"]["waits_for"] == "shard0-2"
    assert rows[0]["recovery"]["caught_up"] > 0
    assert rows[0]["delivery"]["missing"] == 0


def test_a_stored_record_gives_the_same_findings_and_verdict(tmp_path: Path) -> None:
    """Also before its last line was written, which is when the run itself asks."""
    events = _stalled(parameters={"driver_options": {"socketTimeoutMS": 3000}}).events()
    recorder = Recorder(tmp_path / "history.jsonl")
    for event in events:
        recorder.write(event)
    recorder.close()
    before_the_last = check_history([event for event in events if event.kind != "run.ended"])[1]
    assert check_history(read(tmp_path / "history.jsonl")) == check_history(events)
    assert check_history(events)[1] == before_the_last


def sound(**changes: Any) -> History:
    """A run that asks what is left; one stream was silent in the hold, which is nobody's concern."""
    history = a_run(**{"silent": {"s1": [(6.3, 18.5)]}, "expected": ["sound"], **changes})
    highest: dict[str, int] = {}
    for event in history.events():
        if event.kind == "write.ok":
            highest[event["key"]] = max(event["seq"], highest.get(event["key"], 0))
    history.add(24.9, "census", documents=[[key, seq] for key, seq in highest.items()])
    return history


def test_where_only_the_end_counts_a_silence_is_no_matter() -> None:
    found = _verdict(sound().events())
    assert (found.verdict, found.outcome, found.headline) == ("as expected", "sound", "as expected: sound")


def test_where_only_the_end_counts_a_loss_is_what_is_found() -> None:
    events = sound().events()
    lost = next(event for event in events if event.kind == "stream.event" and event.t > 7e9)
    found = _verdict([event for event in events if event is not lost])
    assert (found.verdict, found.outcome) == ("not as expected", "unsound")
    assert found.reasons[0].startswith("delivery: stream s")


def test_a_write_lost_from_the_collection_goes_before_an_event_lost() -> None:
    events = without(sound().events(), "census")
    events.append(Event(round(24.9e9), 1.7e9, "test", "census", {"documents": []}))
    found = _verdict(sorted(events, key=lambda event: event.t))
    assert (found.verdict, found.outcome) == ("not as expected", "unsound")
    assert found.reasons[0].startswith("durability: document 'shard0-k0' is gone")


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ({"proven": None}, "was not proven active"),
        ({"healed": None, "recovered": None}, "NOT HEALED"),
    ],
)
def test_where_only_the_end_counts_a_fault_without_proof_or_healing_is_unknown(
    times: dict[str, Any], reason: str
) -> None:
    found = _verdict(sound(**times).events())
    assert (found.verdict, found.exit_code) == ("unknown", exits.UNKNOWN)
    assert reason in found.headline


def test_a_schedule_of_which_nothing_could_be_injected_proves_nothing() -> None:
    found = _verdict(sound(fault=False).events())
    assert found.headline == "unknown: no fault of the schedule could be injected"
