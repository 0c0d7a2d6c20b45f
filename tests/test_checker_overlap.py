"""Sends and copies per logical write against their bounds, and the rules that explain an excess. Without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempts_parts import MEMBER, Attempted, Copy, answered, hung, seed_run
from harness.checkers import overlap
from harness.checkers.finding import Finding
from harness.checkers.together import Interval, most_at_once
from history_builder import History, judged, without


def examined(history: History) -> Finding:
    finding = judged(overlap, history.events())
    assert finding is not None
    return finding


def test_four_executions_that_time_out_are_eight_sends_and_four_copies_at_once() -> None:
    history = seed_run()
    history.log()
    finding = examined(history)
    assert finding.valid is True, finding.evidence
    (row,) = finding.evidence["writes"]
    assert (row["executions"], row["sends"], row["copies"], row["copies_at_once"]) == (4, 8, 4, 4)
    assert (row["effective"], row["groups"]) == (4, 4)
    assert (row["begun"], row["ended"], row["sent_over"]) == (0.0, 39.0, 39.0)
    assert row["ran_over"] == pytest.approx(60.04)
    assert finding.evidence["totals"]["sends"] == 8
    for name, allowed in (("sends", 8), ("copies", 4), ("copies_at_once", 4)):
        bound = finding.evidence["bounds"][name]
        assert bound == {"measured": allowed, "allowed": allowed, "holds": True, "reached": 1, "exceeded": 0}
    assert finding.evidence["most"]["at_once_of_all_writes"] == 4


def test_without_the_drivers_resend_the_bound_of_the_sends_is_not_reached_and_that_of_the_copies_is() -> None:
    history = Attempted()
    for number in range(1, 4):
        history.execution("t/0/0", number, number * 10.0, [hung(number)], sends=1, numbered=False)
    history.log()
    bounds = examined(history).evidence["bounds"]
    assert (bounds["sends"]["measured"], bounds["sends"]["reached"]) == (3, 0)
    assert (bounds["copies_at_once"]["measured"], bounds["copies_at_once"]["reached"]) == (3, 1)


def test_copies_that_follow_each_other_are_not_at_once() -> None:
    history = Attempted()
    for number in range(3):
        history.execution("t/0/0", number, number * 10.0, [Copy(number, number + 1.0)], sends=1, outcome="ok")
    history.log()
    (row,) = examined(history).evidence["writes"]
    assert (row["copies"], row["copies_at_once"]) == (3, 1)
    # As many groups as copies, and each in a session of its own.
    assert examined(history).evidence["rules"] == []


def test_what_reached_the_wire_counts_as_sent_not_what_the_driver_meant_to_write() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 2.0)], sends=2, tapped=1)
    history.log()
    evidence = examined(history).evidence
    assert (evidence["totals"]["sends"], evidence["sources"]["sends"]) == (1, ["tap"])


EXCESSES: list[tuple[str, dict[str, Any], list[str], bool]] = [
    ("for no reason", {}, [], False),
    ("under timeoutMS", {"driver_option": ["timeoutMS=1000"]}, [overlap.TIMEOUT_RULE], True),
    ("with labels of overload", {"labels": ["SystemOverloadedError"]}, [overlap.OVERLOAD_RULE], True),
    ("with other labels", {"labels": ["RetryableWriteError"]}, [], False),
]


@pytest.mark.parametrize(("why", "given_", "rules", "valid"), EXCESSES, ids=[one[0] for one in EXCESSES])
def test_a_third_send_is_explained_by_a_rule_or_is_a_problem(
    why: str, given_: dict[str, Any], rules: list[str], valid: bool
) -> None:
    labels = given_.get("labels", [])
    history = Attempted(**{name: value for name, value in given_.items() if name != "labels"})
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 2.0)], sends=3, labels=labels)
    history.log()
    finding = examined(history)
    (excess,) = finding.evidence["excesses"]
    assert (excess["bound"], excess["found"], excess["allowed"]) == ("sends", 3, 2)
    assert excess["rules"] == finding.evidence["rules"] == rules
    assert finding.valid is valid
    assert finding.evidence["bounds"]["sends"]["holds"] is False
    if not valid:
        assert finding.evidence["problems"] == ["write t/0/0: 3 sends for 1 executions, at most 2"]


@pytest.mark.parametrize(("changed", "valid"), [((0, 0), True), ((0, 1), True), ((1, 1), False)])
def test_a_second_copy_of_an_execution_is_explained_where_the_first_changed_nothing(
    changed: tuple[int, int], valid: bool
) -> None:
    history = Attempted()
    again = [Copy(1.0, 60.0, changed=changed[0]), Copy(60.1, 60.2, changed=changed[1])]
    history.execution("t/0/0", 1, 1.0, again)
    history.log()
    finding = examined(history)
    (row,) = finding.evidence["writes"]
    assert (row["copies"], row["copies_at_once"], row["effective"]) == (2, 1, sum(changed))
    assert finding.valid is valid
    assert finding.evidence["rules"] == ([overlap.NO_RECORD_RULE] if valid else [])


def test_a_copy_that_was_ended_inside_the_engine_is_a_copy_and_its_resend_is_another() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 5.0, changed=0, executed=False, failed=True), Copy(5.1, 5.2)])
    history.log()
    finding = examined(history)
    (row,) = finding.evidence["writes"]
    assert (row["copies"], row["copies_at_once"], row["effective"]) == (2, 1, 1)
    assert (finding.valid, finding.evidence["rules"]) == (True, [overlap.NO_RECORD_RULE])


def test_two_copies_of_one_execution_at_once_break_the_bound_whatever_the_rules() -> None:
    history = Attempted(driver_option=["timeoutMS=1000"])
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 9.0, changed=0), Copy(2.0, 9.0, changed=0)], numbered=False)
    history.log()
    finding = examined(history)
    assert finding.valid is False
    assert "2 copies at once for 1 executions, at most 1" in finding.evidence["problems"][0]


def test_with_one_explicit_session_the_groups_are_more_than_the_copies_at_once_and_a_rule_says_so() -> None:
    history = Attempted(explicit_session=True)
    for number in range(1, 5):
        copies = [Copy(number * 1.0, 60.0 + number)] if number in (1, 4) else []
        history.execution("t/0/0", number, number * 1.0, copies, session="one")
    history.log()
    finding = examined(history)
    (row,) = finding.evidence["writes"]
    # The fourth waited for the session as long as the first had it.
    assert (row["groups"], row["copies"], row["copies_at_once"]) == (4, 2, 1)
    assert finding.evidence["rules"] == [overlap.SESSION_RULE]
    assert finding.valid is True


@pytest.mark.parametrize("code", [50, 462])
def test_a_session_that_the_driver_kept_after_an_error_is_no_explicit_one_that_copies_waited_for(code: int) -> None:
    history = Attempted()
    for number in range(1, 4):
        copy = Copy(number * 1.0, number + 0.7, changed=0, executed=False, failed=True)
        history.execution("t/0/0", number, number * 1.0, [copy], sends=1, session="kept", code=code)
    history.log()
    assert examined(history).evidence["rules"] == []


def test_a_bulk_may_send_each_of_its_commands_twice() -> None:
    history = Attempted()
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 2.0)], sends=2, session="a")
    events = history.events()
    other = Attempted()
    other.requests = 2
    other.execution("t/0/0", 1, 5.0, [Copy(5.0, 6.0)], sends=2, session="b")
    events += [one for one in other.events() if one.kind in ("send", "send.ended", "op.logged")]
    total = next(one for one in events if one.kind == "tap")
    total.fields["total"] = 4
    history.log()
    events += [one for one in history.events() if one.kind == "log.counted"]
    finding = judged(overlap, sorted(events, key=lambda one: one.t))
    assert finding is not None
    (row,) = finding.evidence["writes"]
    assert (row["sends"], row["copies"]) == (4, 1)
    assert finding.valid is True, finding.evidence["problems"]


def test_a_copy_that_works_on_two_shards_is_one() -> None:
    history = Attempted()
    two = [Copy(1.0, 9.0, member="shard0-0", changed=3), Copy(1.0, 9.0, member="shard1-0", changed=4)]
    history.execution("t/0/0", 1, 1.0, two, sends=1, numbered=False)
    history.log("shard0-0")
    (row,) = examined(history).evidence["writes"]
    assert (row["copies"], row["copies_at_once"], row["effective"]) == (1, 1, 1)


def test_what_was_sampled_is_told_apart_with_its_interval_and_when_nobody_answered() -> None:
    history = seed_run()
    history.log()
    history.sampled(20.0, 2)
    history.sampled(30.0, 3)
    history.sampled(35.0, None)
    history.sampled(36.0, 1)
    history.sampled(40.0, None)
    evidence = examined(history).evidence
    (row,) = evidence["writes"]
    assert (row["copies_at_once"], row["sampled_at_once"], row["sampled_interval"]) == (4, 3, 0.2)
    assert evidence["sources"]["sampled"] == {
        "samples": 3,
        "longest_interval": 0.2,
        "seen_at_once": 3,
        "of_at_once": 4,
        "without_an_answer": {"rs0-0": [[35.0, 36.0], [40.0, None]]},
    }


def test_without_the_tap_the_sends_are_the_drivers_and_without_the_log_copies_are_not_known() -> None:
    history = seed_run()
    events = without(without(history.events(), "tap"), "op.logged")
    finding = judged(overlap, events)
    assert finding is not None
    (row,) = finding.evidence["writes"]
    assert (row["sends"], row["copies"], row["copies_at_once"]) == (8, None, None)
    assert finding.evidence["sources"]["sends"] == ["listener"]
    assert finding.valid == "unknown"
    assert "no member's log was read" in finding.evidence["doubts"][0]


def test_a_request_whose_comment_was_cut_off_is_known_by_its_session_and_number() -> None:
    history = seed_run()
    history.log()
    for event in history.events():
        if event.kind == "op.logged" and event["execution"] == 3:
            event.fields.update(write=None, execution=None)
    assert examined(history).evidence["totals"]["copies"] == 4
    for event in history.events():
        if event.kind == "op.logged" and event["execution"] == 2:
            event.fields.update(write=None, execution=None, lsid=None, txn=None)
    finding = examined(history)
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["2 requests in the log belong to no logical write that is known"]


def test_a_run_that_was_interrupted_proves_nothing_and_one_without_executions_is_not_asked() -> None:
    history = seed_run()
    history.log()
    cut = without(history.events(), "run.ended")
    finding = judged(overlap, [event for event in cut if event.kind != "phase"])
    assert finding is not None
    assert finding.valid == "unknown"
    assert judged(overlap, Attempted().events()) is None


def test_redeliveries_are_executions_as_well() -> None:
    history = seed_run()
    history.execution("t/0/0", 5, 50.0, [hung(5, until=70.0), answered(70.5)], seconds=9.0)
    history.add(49.0, "record", write="t/0/0", what="redelivered", consumer="c2", detail=None)
    history.log()
    finding = examined(history)
    assert finding.evidence["totals"]["redelivered"] == 1
    assert finding.evidence["bounds"]["copies"]["allowed"] == 5
    assert finding.valid is True


def test_of_very_many_writes_the_rows_are_few_and_the_totals_whole() -> None:
    history = Attempted()
    for number in range(overlap.ROWS_SHOWN + 20):
        history.execution(f"t/0/{number}", 1, 1.0, [Copy(1.0, 2.0)], sends=1, outcome="ok", effect=True)
    history.execution("t/1/0", 1, 2.0, [Copy(1.0, 2.0), answered(3.0)])
    history.log()
    evidence = examined(history).evidence
    assert (len(evidence["writes"]), evidence["writes_left_out"]) == (overlap.ROWS_SHOWN, 21)
    assert evidence["writes"][0]["write"] == "t/1/0"
    assert evidence["totals"]["sends"] == overlap.ROWS_SHOWN + 22
    assert evidence["most"]["at_once_of_all_writes"] == overlap.ROWS_SHOWN + 21


spans = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 10)), max_size=12)


@given(spans)
def test_the_most_at_once_is_what_counting_moment_by_moment_gives(found: list[tuple[int, int, int]]) -> None:
    """Of executions on one member, counted half way between any two whole seconds."""
    intervals = [Interval(whose, "m", began, began + length) for whose, began, length in found]
    by_hand = max((sum(one.began <= t + 0.5 < one.ended for one in intervals) for t in range(41)), default=0)
    assert most_at_once(intervals) == max(by_hand, 1 if intervals else 0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=6))
def test_copies_at_once_are_never_more_than_copies_nor_copies_more_than_told(
    found: list[tuple[int, int, int]],
) -> None:
    history = Attempted()
    for number, (copies, began, length) in enumerate(found, 1):
        history.execution(
            "t/0/0", number, 1.0, [Copy(began + n * 100, began + n * 100 + length) for n in range(copies)]
        )
    history.log()
    (row,) = examined(history).evidence["writes"]
    assert row["copies"] == sum(copies for copies, _, _ in found)
    assert 1 <= row["copies_at_once"] <= len(found)


@pytest.mark.parametrize("container", [False, True])
def test_what_a_member_did_that_was_started_anew_is_not_all_in_its_log_and_so_not_known(container: bool) -> None:
    history = seed_run()
    history.log()
    history.counters(pid=7 if container else 8, began=1 if container else None)
    finding = examined(history)
    assert finding.valid == "unknown"
    (doubt,) = finding.evidence["doubts"]
    assert doubt == "rs0-0: started anew meanwhile, and the log does not have all that was carried out"


def test_a_member_that_gave_no_answer_at_the_end_may_have_done_what_no_log_has() -> None:
    history = seed_run()
    history.log()
    history.counters()
    history.add(91.5, "counters", "serverStatus", member=MEMBER, when="end", values=None, error="gone")
    assert examined(history).evidence["doubts"] == [
        "rs0-0: no answer at the end, and the log may not have all that was done"
    ]
