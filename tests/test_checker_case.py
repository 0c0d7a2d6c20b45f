"""Whether each operation fared as its case has it, and each write was applied as often as it was acknowledged."""

from __future__ import annotations

import pytest

from harness import exits
from harness.checkers import case
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.finding import Finding
from harness.scenarios.stale_cases import FIXED, FULL, STALE, isolation
from harness.verdict import check_history
from history_builder import History, judged
from routing_parts import SPLIT, Routed


def found(history: History) -> Finding:
    finding = judged(case, history.events())
    assert finding is not None
    return finding


def applied(history: History) -> Finding:
    digest = fold(history.events())
    finding = case.applied(digest, Context.of(digest.started or {}))
    assert finding is not None
    return finding


def test_a_run_that_goes_as_its_case_has_it_holds() -> None:
    history = Routed().build()
    assert found(history).valid is True
    assert applied(history).valid is True


@pytest.mark.parametrize(
    ("setting", "name", "at", "code", "problem"),
    [
        ("fine", "second find B", 0.004, None, "second find B was to wait, and ended ok after 0.004 s"),
        ("fine", "second find B", 0.8, None, "second find B was to wait, and ended ok after 0.800 s"),
        ("fine", "second find B", None, None, "was to end well, and was never answered"),
        ("fine", "find C", 0.004, 133, "find C was to end well, and ended failed after 0.004 s with 133"),
        ("fine", "probe B", 0.3, 50, "probe B was to end with 304, and ended failed after 0.300 s with 50"),
        ("fine", "probe B", 0.3, None, "probe B was to end with 304, and ended ok after 0.300 s"),
        ("coarse", "probe B", 0.004, 304, "probe B was to end with 50"),
        ("coarse", "find C", 0.004, None, "find C was to wait, and ended ok"),
    ],
)
def test_what_fares_otherwise_is_named(
    setting: str, name: str, at: float | None, code: int | None, problem: str
) -> None:
    run = Routed()
    run.ended[setting, name] = {"at": at, "code": code}
    finding = found(run.build())
    assert finding.valid is False
    assert any(problem in one for one in finding.evidence["problems"]), finding.evidence["problems"]


@pytest.mark.parametrize("counter", [STALE, FULL])
def test_a_router_that_refreshes_more_often_than_expected_is_named(counter: str) -> None:
    run = Routed()
    bounds = SPLIT.expected["fine"].counters
    once_more = {name: 3 + least + (name == counter) for name, (least, _most) in bounds.items()}
    run.counters["fine", "released", "values"] = once_more
    finding = found(run.build())
    assert finding.valid is False and counter in finding.evidence["problems"][0]


def test_a_router_that_had_learnt_of_it_before_it_was_asked_leaves_the_run_unknown() -> None:
    run = Routed()
    bounds = SPLIT.expected["fine"].counters
    run.counters["fine", "stale", "values"] = dict.fromkeys(bounds, 4)
    finding = found(run.build())
    assert finding.valid == "unknown" and "before anything was sent" in finding.evidence["doubts"][0]


def test_a_router_whose_counters_nobody_could_read_leaves_the_run_unknown() -> None:
    run = Routed()
    run.counters["coarse", "released", "values"] = None
    assert found(run.build()).valid == "unknown"


def test_an_operation_may_end_before_the_release_where_its_case_says_that_it_gives_up() -> None:
    run = Routed(isolation("split", "kill-config", 25.0))
    for name in run.case.expected["fine"].waiting:
        run.does("fine", name, at=0.9, code=run.case.expected["fine"].errors[name][0])
    assert found(run.build()).valid is True


@pytest.mark.parametrize(("times", "valid"), [(0, False), (1, True), (2, False)])
def test_an_acknowledged_write_is_applied_exactly_once(times: int, valid: bool) -> None:
    run = Routed()
    run.applied["fine", "second update B"] = times
    history = run.build()
    finding = applied(history)
    assert finding.valid is valid
    if not valid:
        assert f"second update B, ok, was applied {times} times" in finding.evidence["problems"][0]
        assert check_history(history.events())[1].exit_code == exits.NOT_AS_EXPECTED


def test_a_doubled_write_is_not_as_expected_even_where_the_check_has_no_power() -> None:
    run = Routed(settings=["fine"])
    run.applied["fine", "second update B"] = 2
    assert check_history(run.build().events())[1].exit_code == exits.NOT_AS_EXPECTED


@pytest.mark.parametrize(("times", "valid"), [(0, True), (1, False)])
def test_a_refused_write_is_not_applied(times: int, valid: bool) -> None:
    run = Routed(FIXED["recipient-write"])
    run.applied["fine", "update A"] = times
    assert applied(run.build()).valid is valid


@pytest.mark.parametrize("times", [0, 1])
def test_a_write_that_was_never_answered_may_have_been_applied_or_not(times: int) -> None:
    run = Routed()
    run.does("fine", "update C", at=None)
    run.applied["fine", "update C"] = times
    assert applied(run.build()).valid is True


def test_where_nobody_looked_at_the_documents_it_is_unknown() -> None:
    events = [one for one in Routed().build().events() if one.kind != "routing.documents"]
    digest = fold(events)
    finding = case.applied(digest, Context.of(digest.started or {}))
    assert finding is not None and finding.valid == "unknown"
