"""Prediction beside measurement: more than predicted is a problem, unless a rule that is known explains it."""

from __future__ import annotations

import pytest

from attempts_parts import Attempted, seed_run
from harness.checkers import predicted
from harness.checkers.finding import Finding
from harness.measures import OVERLOADED
from history_builder import judged

WRITE = "t/0/0"


def examined(history: Attempted) -> Finding:
    history.log()
    finding = judged(predicted, history.events())
    assert finding is not None
    return finding


@pytest.mark.parametrize(("label", "valid"), [(OVERLOADED, True), ("RetryableWriteError", False)])
def test_more_sends_than_predicted_are_a_problem_where_no_rule_explains_them(label: str, valid: bool) -> None:
    history = Attempted()
    history.add(0.3, "predicted", executions=1, sends=2, copies=1, give_up=2.0, rules=[], warnings=[])
    history.execution(WRITE, 1, 1.0, sends=3, labels=[label])
    finding = examined(history)
    assert (finding.valid, finding.evidence["outcome"]) == (valid, "exceeded")
    assert finding.evidence["problems"] == ([] if valid else [f"write {WRITE}: 3 sends, at most 2 were predicted"])


def test_how_many_copies_ran_at_once_is_not_known_where_a_member_was_started_anew() -> None:
    history = seed_run()
    history.add(0.3, "predicted", executions=4, sends=8, copies=4, give_up=40.0, rules=[], warnings=[])
    history.counters(pid=8)
    finding = examined(history)
    assert (finding.valid, finding.evidence["outcome"]) == ("unknown", None)
