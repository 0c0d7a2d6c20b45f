"""What the collection holds against what the copies that took effect leave, kind by kind. Without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attempts_parts import Attempted, Copy, answered, hung, seed_run
from harness.checkers import effects
from harness.checkers.finding import Finding
from harness.drivers.kinds import KINDS, MANY, QTY
from history_builder import History, judged

WRITE = "t/0/0"


def examined(history: History) -> Finding:
    finding = judged(effects, history.events())
    assert finding is not None
    return finding


def inserted(*executions: int) -> list[dict[str, Any]]:
    return [{"write": WRITE, "execution": one} for one in executions]


def added(executions: list[int], last: int) -> list[dict[str, Any]]:
    return [{"write": WRITE, "execution": last, "qty": QTY * len(executions), "executions": executions}]


def kept(last: int) -> list[dict[str, Any]]:
    return [{"write": WRITE, "execution": last}]


def apart(kind: str, *numbers: int) -> Attempted:
    """Executions that were carried out one after the other, in this order."""
    history = Attempted(write=kind)
    for place, number in enumerate(numbers):
        history.execution(WRITE, number, number * 1.0, [Copy(60.0 + place, 60.5 + place)])
    history.log()
    return history


LEFT: list[tuple[str, list[dict[str, Any]], bool]] = [
    ("insert", inserted(1, 2, 3), True),
    ("insert", inserted(1, 2), False),
    ("insert", inserted(1, 2, 2), False),
    ("inc", added([1, 2, 3], 3), True),
    ("inc", added([1, 2, 3], 2), False),
    ("inc", added([1, 2], 2), False),
    ("find-and-modify", added([1, 2, 3], 3), True),
    ("set", kept(3), True),
    ("set", kept(1), False),
    ("replace-upsert", kept(3), True),
    ("replace-upsert", [], False),
    ("bulk-ordered", inserted(*[1, 2, 3] * 3), True),
    ("bulk-unordered", inserted(*[1, 2, 3] * 2), False),
]


@pytest.mark.parametrize(("kind", "documents", "valid"), LEFT)
def test_three_copies_leave_what_their_kind_leaves(kind: str, documents: list[dict[str, Any]], valid: bool) -> None:
    history = apart(kind, 1, 2, 3)
    history.effects(*documents)
    finding = examined(history)
    assert finding.valid is valid, finding.evidence
    assert bool(finding.evidence["problems"]) is not valid
    if not valid:
        assert finding.evidence["problems"][0].startswith("write t/0/0: expected ")


def test_copies_of_a_write_that_is_not_idempotent_are_told_as_doubled() -> None:
    history = seed_run()
    history.log()
    history.effects(*inserted(1, 2, 3, 4))
    finding = examined(history)
    assert finding.valid is True
    assert (finding.evidence["documents"], finding.evidence["effective"], finding.evidence["doubled"]) == (4, 4, 3)
    (row,) = finding.evidence["writes"]
    assert row["doubled"] == [2, 3, 4]


def test_an_older_copy_that_was_last_has_overtaken_the_others() -> None:
    for last, valid in ((1, True), (3, False)):
        history = apart("set", 2, 3, 1)
        history.effects(*kept(last))
        assert examined(history).valid is valid
    history = apart("set", 2, 3, 1)
    history.effects(*kept(1))
    finding = examined(history)
    assert (finding.evidence["overtaken"], finding.evidence["doubled"]) == (1, 0)
    assert finding.evidence["writes"][0]["overtaken"] == [1]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_of_copies_that_ended_together_any_may_have_been_the_last(last: int) -> None:
    history = Attempted(write="set")
    for number in (1, 2, 3):
        history.execution(WRITE, number, number * 1.0, [hung(number)])
    history.log()
    history.effects(*kept(last))
    assert examined(history).valid is True


def test_of_inserts_of_one_id_one_is_left_and_it_is_the_one_that_took_effect() -> None:
    for left, valid in ((2, True), (1, False)):
        history = Attempted(write="insert-business-id")
        refused = Copy(60.0, 60.2, changed=0)
        history.execution(WRITE, 1, 1.0, [refused, refused])
        history.execution(WRITE, 2, 2.0, [Copy(60.0, 60.1), answered()])
        history.log()
        history.effects(*kept(left))
        assert examined(history).valid is valid


def many(history: Attempted, number: int, changed: int, *, interrupted: bool = False) -> None:
    """Of one that was interrupted the log does not tell how far it had come."""
    copy = Copy(
        60.0 + number, 60.5 + number, changed=0 if interrupted else changed,
        executed=not interrupted, failed=interrupted,
    )  # fmt: skip
    history.execution(WRITE, number, number * 1.0, [copy], sends=1, numbered=False)


def documents_of_many(*executions: list[int]) -> list[dict[str, Any]]:
    return [
        {"write": WRITE, "execution": done[-1] if done else None, "qty": QTY * len(done), "executions": done}
        for done in executions
    ]


def test_an_update_of_many_that_was_interrupted_may_have_done_any_part_and_the_documents_tell_which() -> None:
    for done, interrupted, valid in ((4, True, True), (4, False, False), (0, True, True), (MANY, True, True)):
        history = Attempted(write="update-many")
        many(history, 1, MANY, interrupted=interrupted)
        history.log()
        history.effects(*documents_of_many(*[[1]] * done, *[[]] * (MANY - done)))
        finding = examined(history)
        assert finding.valid is valid, (done, finding.evidence)
        assert finding.evidence["partial"] == (1 if 0 < done < MANY else 0)


@pytest.mark.parametrize(
    ("kind", "documents", "done"),
    [
        (
            "update-many",
            [[1, 2]] * 3 + [[1]] + [[]] * (MANY - 4),
            "updated 4 of 10 by execution 1, 3 of 10 by execution 2",
        ),
        ("delete-many", [[]] * 7, "3 of 10 documents deleted"),
    ],
)
def test_what_was_done_of_a_write_on_many_is_told_in_numbers(kind: str, documents: list[list[int]], done: str) -> None:
    history = Attempted(write=kind)
    for number in (1, 2):
        many(history, number, 0, interrupted=True)
    history.log()
    history.effects(*documents_of_many(*documents))
    (row,) = examined(history).evidence["writes"]
    assert row["done"] == done


def test_three_updates_of_many_add_three_times_to_each_and_one_more_is_a_problem() -> None:
    for times, valid in ((3, True), (4, False), (2, False)):
        history = Attempted(write="update-many")
        for number in (1, 2, 3):
            many(history, number, MANY)
        history.log()
        history.effects(*documents_of_many(*[[1, 2, 3, 3][:times]] * MANY))
        finding = examined(history)
        assert finding.valid is valid
        assert (finding.evidence["partial"], finding.evidence["doubled"]) == (0, 2)


DELETES = [
    (MANY, 0, True, 0), (MANY, 1, False, 1), (4, 6, True, 1), (4, 5, False, 1),
    (None, 6, True, 1), (None, 0, True, 0), (None, MANY, True, 0),
]  # fmt: skip
"""How many it deleted (None: it was interrupted, and nobody knows), and how many are left."""


@pytest.mark.parametrize(("deleted", "left", "valid", "partial"), DELETES)
def test_a_delete_of_many_leaves_what_it_did_not_get_to(
    deleted: int | None, left: int, valid: bool, partial: int
) -> None:
    history = Attempted(write="delete-many")
    many(history, 1, deleted or 0, interrupted=deleted is None)
    history.log()
    history.effects(*documents_of_many(*[[]] * left))
    finding = examined(history)
    assert (finding.valid, finding.evidence["partial"]) == (valid, partial)


def test_a_write_without_acknowledgement_that_never_ran_is_lost_in_silence() -> None:
    history = Attempted(write="w0")
    history.execution(WRITE, 1, 1.0, [], sends=1, outcome="ok", numbered=False)
    history.execution("t/0/1", 1, 1.0, [Copy(1.0, 2.0)], sends=1, outcome="ok", numbered=False)
    history.log()
    history.effects({"write": "t/0/1", "execution": 1})
    finding = examined(history)
    assert finding.valid is True
    assert finding.evidence["lost_unacknowledged"] == 1
    assert [row["write"] for row in finding.evidence["writes"]] == [WRITE]


@pytest.mark.parametrize(("outcome", "valid"), [("unknown", True), ("ok", False)])
def test_what_an_old_primary_did_and_is_gone_was_rolled_back_and_must_not_have_been_acknowledged(
    outcome: str, valid: bool
) -> None:
    history = Attempted(write="insert")
    history.execution(WRITE, 1, 1.0, [hung(1)], outcome=outcome, effect=outcome == "ok")
    history.execution(WRITE, 2, 40.0, [Copy(40.0, 40.1, member="rs0-1")], sends=1, outcome="ok", effect=True)
    history.log()
    history.effects(*inserted(2))
    finding = examined(history)
    assert finding.evidence["rolled_back"] == 1
    assert finding.valid is valid
    if not valid:
        assert finding.evidence["problems"] == ["write t/0/0 execution 1: acknowledged, and nothing is left of it"]


@pytest.mark.parametrize("elected", [True, False])
def test_all_may_be_gone_that_one_primary_did_before_another_election(elected: bool) -> None:
    history = apart("insert", 1, 2)
    if elected:
        history.add(90.0, "cluster", what="primary changed", set="rs0", before="rs0-0", now="rs0-1")
    history.effects()
    finding = examined(history)
    assert finding.valid is elected
    if elected:
        assert (finding.evidence["rolled_back"], finding.evidence["doubled"]) == (2, 0)


def test_what_is_gone_without_a_failover_is_a_problem() -> None:
    history = apart("insert", 1, 2)
    history.effects(*inserted(2))
    finding = examined(history)
    assert (finding.valid, finding.evidence["rolled_back"]) == (False, 0)


def test_documents_that_nobody_wrote_are_a_problem() -> None:
    history = apart("insert", 1)
    history.effects(*inserted(1), {"write": "t/9/9", "execution": 1})
    assert examined(history).evidence["problems"] == ["documents of t/9/9, which nobody wrote"]


def test_without_the_log_or_the_kind_nothing_is_known_and_where_nobody_looked_nothing_is_asked() -> None:
    history = Attempted(write="insert")
    history.execution(WRITE, 1, 1.0)
    history.effects()
    assert examined(history).valid == "unknown"
    history = Attempted()
    history.execution(WRITE, 1, 1.0, [Copy(1.0, 2.0)])
    history.log()
    history.effects(*inserted(1))
    assert examined(history).evidence["doubts"] == ["the record does not say of which kind its writes are"]
    assert judged(effects, apart("insert", 1).events()) is None


@given(
    kind=st.sampled_from(sorted(name for name, kind in KINDS.items() if not kind.prepared)),
    numbers=st.permutations([1, 2, 3, 4]).flatmap(lambda all_: st.integers(0, 4).map(lambda n: list(all_[:n]))),
)
def test_what_a_kind_expects_of_copies_that_ran_apart_is_what_is_accepted(kind: str, numbers: list[int]) -> None:
    if kind == "insert-business-id":
        numbers = numbers[:1]
    history = apart(kind, *numbers)
    history.execution("t/0/1", 1, 1.0)
    left = KINDS[kind].expected(numbers)
    if left.qty is not None:
        documents = added(numbers, numbers[-1]) if numbers else []
    elif left.documents == 1 and len(left.executions) == 1:
        documents = kept(left.executions[0])
    else:
        documents = inserted(*left.executions)
    history.effects(*documents)
    finding = examined(history)
    assert finding.valid is True, finding.evidence
