"""What the text of a run says of copies: each term of a sum named, the sampler's share told as such."""

from __future__ import annotations

from typing import Any

from attempts_parts import Attempted, Copy, hung, seed_run
from harness.checkers import examine_all, predicted
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.report import copies
from history_builder import judged


def evidence(history: Attempted) -> dict[str, dict[str, Any]]:
    digest = fold(history.events())
    return {one.name: one.evidence for one in examine_all(digest, Context.of(digest.started or {}))}


def lines(history: Attempted) -> list[str]:
    return copies.lines(evidence(history))


def test_the_taps_count_and_the_servers_are_one_sum_of_named_terms() -> None:
    history = seed_run()
    history.log(requests=13, executed=7, internal=3)
    history.counters(total=11, retried=4, entered=2)
    history.tapped(12, now=1, unanswered=8)
    said = lines(history)
    assert (
        "rs0-0, read after the release: 12 at the tap + 3 of the server's own = 11 in its counters + "
        "2 rejected by fail points + 1 never read + 1 in flight"
    ) in said
    assert "at the tap: 8 sends of these writes + 4 of what prepares the run and proves the fault" in said
    assert "rs0-0: 7 carried out = 11 in its counters - 0 failed - 4 answered from their session's record" in said


def test_what_was_counted_and_changed_nothing_is_a_term_of_its_own() -> None:
    history = seed_run()
    history.log(requests=9, outside=1)
    history.counters(total=9, retried=4)
    assert any(
        line.endswith("answered from their session's record - 1 that changed nothing") for line in lines(history)
    )


def test_before_a_router_the_tap_stands_alone_and_the_shards_log_is_held_against_its_counters() -> None:
    history = seed_run()
    history.log()
    history.counters(total=8, retried=4)
    history.tapped(8, link="router", unanswered=8)
    said = lines(history)
    assert "router: 8 at the tap; it sends them on to the shards" in said
    assert "rs0-0, read after the release: 8 in its log = 8 in its counters + 0 rejected by fail points" in said


def test_members_that_nobody_wrote_to_are_left_out() -> None:
    history = seed_run()
    history.log()
    history.counters(total=8, retried=4)
    history.log("rs0-1", requests=0, executed=0)
    history.counters("rs0-1")
    history.tapped(0, link="rs0-1")
    assert not any("rs0-1" in line for line in lines(history))


def test_a_sampled_figure_is_told_with_what_there_was_and_the_interval() -> None:
    history = seed_run()
    history.log()
    history.sampled(20.0, 2)
    history.sampled(30.0, 3)
    assert "sampled: 3 of 4 copies at once seen in the engine (75%), in 2 samples, at most 0.2 s apart" in lines(
        history
    )


def test_executions_that_a_failover_undid_are_named() -> None:
    history = Attempted(write="insert")
    history.execution("t/0/0", 1, 1.0, [hung(1)])
    history.execution("t/0/0", 2, 40.0, [Copy(40.0, 40.1, member="rs0-1")], sends=1, outcome="ok", effect=True)
    history.log()
    history.effects({"write": "t/0/0", "execution": 2})
    assert "rolled back by the failover: t/0/0 executions 1" in lines(history)


def test_what_became_of_the_records_is_one_line() -> None:
    history = seed_run(records=1)
    history.add(80.0, "record", write="t/0/0", what="dead", consumer="c1", detail=None)
    history.log()
    history.effects(*({"write": "t/0/0", "execution": number} for number in range(1, 5)))
    assert (
        "1 records: 0 processed, 1 dead (1 of these written all the same), 0 lost; "
        "3 of 3 duplicate effects are counted copies'"
    ) in lines(history)


def test_a_record_that_was_delivered_anew_may_come_to_more_than_one_delivery_was_predicted_to() -> None:
    for failed in (False, True):
        history = seed_run(records=1)
        history.add(0.5, "predicted", "run", executions=2, sends=4, copies=2, give_up=18.0, rules=[], warnings=[])
        if failed:
            history.add(18.5, "record", write="t/0/0", what="commit failed", consumer="c1", detail=None)
        history.log()
        said = "predicted is of one delivery of a record: 1 of 1 were delivered anew"
        assert any(line.startswith(said) for line in lines(history)) == failed
        finding = judged(predicted, history.events())
        assert finding is not None
        assert (finding.evidence["delivered_anew"], finding.valid) == (int(failed), failed)
        assert [row["reached_by"] for row in finding.evidence["rows"]] == [1, 1, 1]


def test_a_member_that_gave_the_sampler_no_answer_is_named_with_how_long() -> None:
    history = seed_run()
    history.log()
    history.sampled(20.0, None)
    history.sampled(30.0, 3)
    assert any(line.endswith("it got no answer of rs0-0 for 10 s") for line in lines(history))


def test_copies_that_bear_no_number_are_in_no_groups() -> None:
    for numbered, said in ((True, "2 copies in 2 groups"), (False, "2 copies without a txnNumber")):
        history = Attempted(write="insert")
        for number in (1, 2):
            copy = [hung(number)]
            history.execution("t/0/0", number, number * 10.0, copy, sends=1, seconds=9.0, numbered=numbered)
        history.log()
        assert any(said in line for line in lines(history))


def test_where_the_sampler_saw_nothing_no_interval_is_told() -> None:
    history = seed_run()
    history.add(0.5, "predicted", "run", executions=4, sends=8, copies=4, give_up=18.0, rules=[], warnings=[])
    history.log()
    assert "sampled: none of 4 copies at once was seen in the engine" in lines(history)
    (table,) = copies.tables(evidence(history))
    assert list(table.columns[0].cells)[-1] == "groups on the server at once, all writes (sampled, none was seen)"
    assert list(table.columns[2].cells)[-1] == "0"


def test_of_duplicate_effects_of_which_the_log_has_not_all_copies_it_says_so() -> None:
    history = Attempted(write="insert", records=1)
    for number in (1, 2):
        history.execution("t/0/0", number, 10.0 * number, [])
    history.add(80.0, "record", write="t/0/0", what="dead", consumer="c1", detail=None)
    history.log()
    history.counters(pid=8)
    history.effects(*({"write": "t/0/0", "execution": number} for number in (1, 2)))
    (told,) = (line for line in lines(history) if "records: " in line)
    assert told.endswith("0 lost; 1 duplicate effects, and not known whose")
