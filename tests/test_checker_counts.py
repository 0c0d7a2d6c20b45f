"""Whether the sources agree: each term between two of them, accounted for or named. Without a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempts_parts import Attempted, Copy, answered, hung, seed_run
from harness.checkers import counts
from harness.checkers.finding import Finding
from history_builder import History, judged


def examined(history: History) -> Finding:
    finding = judged(counts, history.events())
    assert finding is not None
    return finding


def figures(finding: Finding, term: str) -> dict[str, int]:
    (found,) = [check["figures"] for check in finding.evidence["checks"] if check["term"] == term]
    return dict(found)


def test_eight_sends_four_of_which_were_carried_out_add_up_over_all_sources() -> None:
    history = seed_run()
    history.log()
    history.counters(total=8, retried=4)
    history.tapped(8, unanswered=8)
    history.sampled(30.0, 4)
    finding = examined(history)
    assert finding.valid is True, finding.evidence["problems"]
    assert finding.evidence["compared"] == {
        "on the wire": 4, "read by the server": 1, "rejected by fail points": 1, "carried out": 1, "acknowledged": 0,
        "sampled": 1,
    }  # fmt: skip
    assert figures(finding, counts.READ)["never read"] == 0
    assert figures(finding, counts.CARRIED_OUT) == {"log": 4, "counters": 8, "failed": 0, "retried": 4, "outside": 0}


@pytest.mark.parametrize(
    ("tapped", "sentence"),
    [
        (1, "write t/0/0 execution 1: the driver wrote 2, the tap read 1: 1 not on the wire"),
        (0, "write t/0/0 execution 1: the driver wrote 2, the tap read 0: 2 not on the wire"),
        (3, "write t/0/0 execution 1: the tap read 3, the driver wrote 2: 1 sent by another"),
    ],
)
def test_what_the_driver_wrote_and_the_tap_did_not_read_is_named(tapped: int, sentence: str) -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 2.0)], tapped=tapped)
    history.execution("t/0/1", 1, 1.0, [Copy(1.0, 2.0)])
    finding = examined(history)
    assert finding.valid is False
    assert finding.evidence["problems"] == [sentence]


def test_requests_that_a_fail_point_rejected_are_in_the_log_and_not_in_the_counters() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 2.0, changed=0, inside=False, executed=False, failed=True), hung(2)])
    history.log()
    history.counters(total=1, entered=1)
    history.tapped(2)
    finding = examined(history)
    assert finding.valid is True, finding.evidence["problems"]
    assert figures(finding, counts.REJECTED) == {"log": 2, "counters": 1, "rejected": 1, "entered": 1, "refused": 0}
    assert figures(finding, counts.READ)["rejected"] == 1


def test_a_request_that_neither_the_counters_nor_a_fail_point_account_for_is_a_problem() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [hung(1), answered()])
    history.log()
    history.counters(total=1, retried=1, entered=0)
    finding = examined(history)
    assert finding.valid is False
    assert finding.evidence["problems"] == [
        "rs0-0: the log has 2 requests, the counters 1; fail points entered 0 times, 0 refused as no primary",
        "rs0-0: the log has 1 carried out, the counters 0 (1 - 0 failed - 1 answered from their session's record)",
    ]


@pytest.mark.parametrize(("refused", "valid"), [(1, True), (0, False)])
def test_what_a_member_refuses_as_no_primary_need_not_be_in_its_counters(refused: int, valid: bool) -> None:
    history = seed_run()
    history.log(requests=9, refused=refused)
    history.counters(total=8, retried=4)
    assert examined(history).valid is valid


@pytest.mark.parametrize(("outside", "valid"), [(1, True), (0, False)])
def test_what_is_answered_outside_of_the_engine_without_an_error_is_counted_and_not_carried_out(
    outside: int, valid: bool
) -> None:
    history = seed_run()
    history.log(requests=9, outside=outside)
    history.counters(total=9, retried=4)
    finding = examined(history)
    assert finding.valid is valid, finding.evidence["problems"]
    assert figures(finding, counts.CARRIED_OUT)["outside"] == outside


@pytest.mark.parametrize(
    ("total", "tapped", "now", "unanswered", "valid"),
    [(8, 8, 0, 8, True), (8, 10, 0, 8, True), (8, 10, 2, 0, True), (8, 10, 0, 1, False), (8, 7, 0, 8, False)],
    ids=["all read", "two never read", "two in flight", "one too many", "one too few"],
)
def test_what_the_tap_passed_on_was_read_is_in_flight_or_lost_its_connection(
    total: int, tapped: int, now: int, unanswered: int, valid: bool
) -> None:
    history = seed_run()
    history.log()
    history.counters(total=total, retried=4)
    history.tapped(tapped, now=now, unanswered=unanswered)
    finding = examined(history)
    assert finding.valid is valid
    assert figures(finding, counts.READ)["never read"] == tapped - now - total


def test_what_a_member_writes_by_itself_is_taken_off() -> None:
    history = seed_run()
    history.log(requests=11, executed=7, internal=3)
    history.counters(total=11, retried=4)
    history.tapped(8, unanswered=8)
    finding = examined(history)
    assert finding.valid is True, finding.evidence["problems"]
    assert figures(finding, counts.READ)["internal"] == 3


def test_without_the_log_the_fail_points_bound_what_may_have_been_rejected() -> None:
    for entered, valid in ((4, True), (3, False)):
        history = Attempted()
        history.execution("t/0/0", 1, 1.0, sends=4)
        history.counters(total=0, entered=entered)
        history.tapped(4)
        finding = examined(history)
        assert finding.valid is valid
        assert figures(finding, counts.READ)["rejected"] == entered


def test_counters_of_a_member_that_was_started_anew_are_not_compared() -> None:
    history = seed_run()
    history.log()
    history.counters(total=1, pid=8)
    history.sampled(30.0, 9)
    finding = examined(history)
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["rs0-0: it was started anew meanwhile, and its counters with it"]
    # What was inside when the process ended left no line, so that the sampler may well have seen more.
    assert finding.evidence["compared"][counts.SAMPLED] == 0


def test_an_acknowledged_execution_is_not_looked_for_in_the_log_of_a_process_that_told_of_none() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [], sends=1, outcome="ok", effect=True)
    history.log()
    history.counters(total=1, pid=8)
    finding = examined(history)
    assert finding.valid == "unknown"
    assert finding.evidence["compared"][counts.ACKNOWLEDGED] == 0


def test_an_acknowledged_execution_that_no_log_has_is_a_problem_and_one_of_w0_is_not() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [], sends=1, outcome="ok", effect=True)
    history.execution("t/0/1", 1, 1.0, [], sends=1, outcome="ok", effect=False, numbered=False)
    history.log()
    finding = examined(history)
    assert finding.valid is False
    assert finding.evidence["problems"] == ["write t/0/0 execution 1: acknowledged, and in no member's log carried out"]


def test_a_sampler_that_saw_more_copies_than_the_log_has_is_a_problem() -> None:
    history = seed_run()
    history.log()
    history.counters(total=8, retried=4)
    history.sampled(30.0, 5)
    finding = examined(history)
    assert finding.valid is False
    assert finding.evidence["problems"] == ["write t/0/0: 5 copies seen at once, 4 in the log"]


def test_with_one_source_alone_nothing_is_known_and_without_executions_nothing_asked() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, tapped=0)
    finding = examined(history)
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["there were no two sources to compare"]
    assert judged(counts, Attempted().events()) is None


@given(
    executed=st.integers(0, 20), retried=st.integers(0, 20), rejected=st.integers(0, 20), internal=st.integers(0, 5),
    lost=st.integers(0, 5), flying=st.integers(0, 5), slip=st.sampled_from((0, 0, 1, -1)),
)  # fmt: skip
def test_whatever_the_parts_are_the_sum_holds_and_one_more_or_less_in_the_log_is_seen(
    executed: int, retried: int, rejected: int, internal: int, lost: int, flying: int, slip: int
) -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [hung(1)])
    read = executed + retried + internal
    history.log(requests=read + rejected, executed=executed + internal + slip, internal=internal)
    history.counters(total=read, retried=retried, entered=rejected)
    history.tapped(executed + retried + rejected + lost + flying, now=flying, unanswered=lost)
    finding = examined(history)
    assert finding.valid is (slip == 0), finding.evidence["problems"]
    assert figures(finding, counts.READ)["never read"] == lost
