"""Folding a history, the windows of its faults, and the context it is judged by."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.windows import windows
from harness.history import HistoryError
from history_builder import History, a_run


def _windows(history: History, context: Context | None = None) -> list[tuple[float, float, float]]:
    found = windows(fold(history.events()), context or Context(fault="freeze"))
    return [(each.opened / 1e9, each.active / 1e9, each.release / 1e9) for each in found]


def test_a_window_reaches_from_the_opening_over_the_proof_to_the_release() -> None:
    assert _windows(a_run()) == [(6.0, 6.1, 18.1)]


def test_a_window_ends_with_a_healing_before_the_release() -> None:
    assert _windows(a_run(healed=12.0)) == [(6.0, 6.1, 12.0)]


def test_an_unproven_fault_is_held_from_its_opening() -> None:
    assert _windows(a_run(proven=None)) == [(6.0, 6.0, 18.1)]


def test_a_proof_that_came_after_the_release_is_none() -> None:
    assert _windows(a_run(proven=18.15)) == [(6.0, 6.0, 18.1)]


def test_overlapping_faults_are_one_hold_and_later_ones_another() -> None:
    history = a_run()
    for name, opened, healed in [("f2", 7.0, 20.0), ("f3", 22.0, 24.0)]:
        history.add(opened, "fault.opened", id=name, fault="freeze", target="shard1-2")
        history.add(healed, "fault.healed", id=name)
    assert _windows(history) == [(6.0, 6.1, 18.1), (22.0, 22.0, 24.0)]
    assert windows(fold(history.events()), Context())[0].recovered is None


def test_without_a_fault_the_hold_phase_is_the_window_if_none_was_asked_for() -> None:
    assert _windows(a_run(fault=False), Context(fault="none")) == [(6.1, 6.1, 18.1)]
    assert _windows(a_run(fault=False), Context(fault="freeze")) == []
    assert _windows(History(), Context(fault=None)) == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("write.invoked", {"key": "k1"}),
        ("write.ok", {"key": ["k1"], "seq": 1}),
        ("write.ok", {"key": "k1", "seq": "one"}),
        ("stream.event", {"key": "k1", "seq": 1}),
        ("fault.opened", {"fault": "freeze"}),
        ("loop.lag", {}),
        ("phase", {}),
    ],
)
def test_a_line_without_the_fields_of_its_kind_is_refused_by_its_number(kind: str, fields: dict[str, Any]) -> None:
    history = History()
    history.phases(load=1.0)
    history.add(2.0, kind, **fields)
    with pytest.raises(HistoryError, match=rf"event 2 of the history, {kind} at 2000000000 ns: expected the fields"):
        fold(history.events())


def test_kinds_that_no_checker_needs_are_passed_over() -> None:
    history = History()
    for kind in ("stream.state", "token", "traffic", "cluster", "alarm.cleared", "made.up"):
        history.add(1.0, kind)
    assert fold(history.events()).events == 6


def test_the_context_is_what_run_started_says_and_the_defaults_otherwise() -> None:
    context = Context.of(
        {
            "parameters": {"threshold": 2, "hold": "7", "shards": 3, "fault": "none", "driver_option": ["a=1", "b"]},
            "expected": ["stalled", "bounded"],
        }
    )
    assert (context.threshold, context.hold, context.shards) == (2.0, 7.0, 3)
    assert context.without_fault
    assert context.driver_options == {"a": "1", "b": ""}
    assert context.expected == {"stalled", "bounded"}
    assert context.minimum_writes == Context().minimum_writes
    assert Context.of({}) == Context()
