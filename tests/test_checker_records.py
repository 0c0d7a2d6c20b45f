"""What became of records: each is processed or dead, none is lost, and what is there twice was counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from attempts_parts import Attempted, Copy, hung
from harness.checkers import records
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.finding import Finding


def examined(history: Attempted) -> Finding:
    digest = fold(history.events())
    finding = records.examine(digest, Context.of(digest.started or {}))
    assert finding is not None
    return finding


def written(*copies: int, what: str = "dead", **parameters: Any) -> Attempted:
    """One record, whose executions took effect so often each; all that is left is there."""
    history = Attempted(**{"write": "insert", "records": 1, **parameters})
    history.add(0.5, "record", write="t/0/0", what="polled", consumer="c1", detail=None)
    for number, times in enumerate(copies, start=1):
        ran = [hung(number, until=60.0 + one) for one in range(times)]
        history.execution("t/0/0", number, 10.0 * number, ran, numbered=False)
    if what:
        history.add(80.0, "record", write="t/0/0", what=what, consumer="c1", detail=None)
    history.log()
    history.effects(
        *({"write": "t/0/0", "execution": number} for number, times in enumerate(copies, 1) for _ in range(times))
    )
    return history


@pytest.mark.parametrize(("what", "processed", "dead"), [("processed", 1, 0), ("dead", 0, 1)])
def test_a_record_that_is_processed_or_dead_is_not_lost(what: str, processed: int, dead: int) -> None:
    finding = examined(written(1, what=what))
    assert finding.valid is True
    assert (finding.evidence["processed"], finding.evidence["dead"], finding.evidence["lost"]) == (processed, dead, 0)
    assert finding.evidence["dead_with_effect"] == dead


def test_a_record_that_is_neither_is_lost_and_named() -> None:
    finding = examined(written(1, what=""))
    assert finding.valid is False
    assert finding.evidence["problems"] == ["record t/0/0: neither processed nor in the dead-letter log"]
    assert finding.evidence["lost_records"] == ["t/0/0"]


def test_records_that_no_consumer_was_given_are_lost() -> None:
    finding = examined(written(1, records=3))
    assert finding.evidence["problems"] == ["2 of 3 records were never delivered to a consumer"]
    assert finding.evidence["lost"] == 2


def test_there_is_one_record_for_each_consumer_unless_said_otherwise() -> None:
    assert examined(written(1, records=None, consumers=2)).evidence["records"] == 2


def test_effects_that_are_there_more_than_once_are_explained_by_as_many_copies() -> None:
    finding = examined(written(1, 1, 1))
    assert finding.valid is True
    assert (finding.evidence["duplicates"], finding.evidence["unexplained"]) == (2, 0)


def test_an_effect_of_a_member_that_was_started_anew_may_have_a_copy_that_no_log_has() -> None:
    history = written(1)
    history.effects({"write": "t/0/0", "execution": 1}, {"write": "t/0/0", "execution": 1})
    assert examined(history).valid is False
    history.counters(pid=8)
    finding = examined(history)
    assert finding.valid == "unknown"
    assert "rs0-0: started anew meanwhile" in finding.evidence["doubts"][0]


def test_an_effect_that_no_copy_explains_is_a_problem() -> None:
    history = written(1, 0)
    history.effects({"write": "t/0/0", "execution": 1}, {"write": "t/0/0", "execution": 2})
    finding = examined(history)
    assert finding.valid is False
    assert finding.evidence["problems"] == ["record t/0/0 execution 2: 1 effects, 0 counted copies"]


@pytest.mark.parametrize(("write", "valid"), [("update-many", True), ("insert", False)])
def test_a_copy_that_was_interrupted_explains_a_part_of_many_documents_and_no_single_one(
    write: str, valid: bool
) -> None:
    history = Attempted(write=write, records=1)
    history.execution("t/0/0", 1, 1.0, [Copy(1.0, 9.0, changed=0, executed=False, failed=True)], numbered=False)
    history.add(80.0, "record", write="t/0/0", what="dead", consumer="c1", detail=None)
    history.log()
    history.effects(*({"write": "t/0/0", "execution": 1, "qty": 5, "executions": [1]} for _ in range(3)))
    assert examined(history).valid is valid


def test_the_documents_of_one_bulk_are_one_effect() -> None:
    history = written(1, 1, write="bulk-ordered")
    history.effects(*({"write": "t/0/0", "execution": one, "part": part} for one in (1, 2) for part in range(3)))
    finding = examined(history)
    assert (finding.valid, finding.evidence["duplicates"]) == (True, 1)


def test_without_a_log_nobody_knows_whether_duplicates_are_copies() -> None:
    history = Attempted(write="insert", records=1)
    history.execution("t/0/0", 1, 1.0)
    history.add(80.0, "record", write="t/0/0", what="dead", consumer="c1", detail=None)
    history.effects({"write": "t/0/0", "execution": 1})
    finding = examined(history)
    assert finding.valid == "unknown"
    assert finding.evidence["doubts"] == ["no member's log was read: which copies took effect is not known"]


def test_where_no_consumer_keeps_books_nothing_is_asked() -> None:
    history = Attempted(write="insert")
    history.execution("t/0/0", 1, 1.0)
    digest = fold(history.events())
    assert records.examine(digest, Context.of(digest.started or {})) is None
