"""Who waited behind a refresh, told from when each operation was answered; and whether it could have been seen."""

from __future__ import annotations

import pytest

from harness import exits
from harness.checkers import isolation
from harness.checkers.context import Context
from harness.checkers.digest import fold
from harness.checkers.finding import Finding
from harness.drivers.routed import Setting
from harness.scenarios import stale_cases
from harness.scenarios.stale_cases import Case
from harness.verdict import Verdict, check_history
from history_builder import History, judged
from routing_parts import AT_RELEASE, HELD, ROUTERS, SPLIT, Routed

ON_RELEASE = AT_RELEASE - HELD


def found(history: History) -> Finding:
    finding = judged(isolation, history.events())
    assert finding is not None
    return finding


def verdict(history: History) -> Verdict:
    return check_history(history.events())[1]


def controlled(history: History) -> Finding | None:
    digest = fold(history.events())
    return isolation.control(digest, Context.of(digest.started or {}))


def test_a_fine_router_isolates_where_only_operations_for_the_stale_shard_are_pending_at_the_release() -> None:
    finding = found(Routed().build())
    assert (finding.valid, finding.evidence["outcome"]) == (True, "isolated")
    fine, coarse = finding.evidence["routers"]
    assert fine["pending"] == ["first find B", "second find B", "second update B"]
    assert (coarse["outcome"], coarse["setting"]) == ("collection blocked", "coarse")


@pytest.mark.parametrize(
    ("name", "after", "outcome"),
    [
        ("find A", ON_RELEASE, "collection blocked"),
        ("update C", None, "collection blocked"),
        ("aggregate C", 0.49, "isolated"),
        ("find other", ON_RELEASE, "other collections blocked"),
    ],
)
def test_a_bystander_of_the_fine_router_that_waits_is_not_isolated(
    name: str, after: float | None, outcome: str
) -> None:
    run = Routed()
    run.does("fine", name, at=after)
    history = run.build()
    finding = found(history)
    assert finding.evidence["outcome"] == outcome
    assert finding.valid is (outcome == "isolated")
    if not finding.valid:
        assert name in finding.evidence["problems"][0]
        assert verdict(history).exit_code == exits.NOT_AS_EXPECTED


@pytest.mark.parametrize("setting", ["fine", "coarse"])
def test_an_operation_that_is_late_and_did_not_wait_for_the_refresh_leaves_the_run_unknown(setting: Setting) -> None:
    run = Routed()
    run.does(setting, "find other", at=0.51)
    told = verdict(run.build())
    assert told.exit_code == exits.UNKNOWN
    assert "find other took 0.510 s and did not wait for the refresh" in told.reasons[0]


def test_where_nothing_waits_for_the_stale_shard_the_outcome_says_so() -> None:
    run = Routed()
    for name in SPLIT.expected["fine"].waiting:
        run.does("fine", name)
    history = run.build()
    assert found(history).evidence["outcome"] == "nothing waited"
    assert verdict(history).exit_code == exits.NOT_AS_EXPECTED


@pytest.mark.parametrize("outcome", ["isolated", "nothing waited"])
def test_a_coarse_router_that_holds_nobody_back_leaves_the_run_unknown(outcome: str) -> None:
    run = Routed()
    spared = {one.name for one in SPLIT.bystanders}
    if outcome == "nothing waited":
        spared |= SPLIT.expected["coarse"].waiting
    for name in spared:
        run.does("coarse", name)
    history = run.build()
    control = controlled(history)
    assert control is not None and control.valid == "unknown"
    assert outcome in control.evidence["doubts"][0]
    told = verdict(history)
    assert (told.exit_code, told.verdict) == (exits.UNKNOWN, "unknown")


def test_without_a_coarse_router_the_run_is_unknown() -> None:
    assert verdict(Routed(settings=["fine"]).build()).exit_code == exits.UNKNOWN


@pytest.mark.parametrize("setting", ["fine", "coarse"])
def test_an_operation_that_was_never_sent_leaves_the_run_unknown(setting: Setting) -> None:
    run = Routed()
    run.never_sent.add((setting, "update C"))
    told = verdict(run.build())
    assert told.exit_code == exits.UNKNOWN
    assert f"{ROUTERS[setting]}: update C were not sent" in told.reasons[0]


def test_an_unproven_hold_leaves_the_run_unknown() -> None:
    run = Routed()
    run.build(fault=False)
    run.add(4.0, "fault.opened", id="f1", fault="fail-point", target="shard3-0")
    run.add(4.5, "fault.unproven", id="f1", reason="nothing ran into it")
    run.add(6.7, "fault.healed", id="f1")
    run.add(7.0, "fault.recovered", id="f1", seconds=0.3)
    assert verdict(run).exit_code == exits.UNKNOWN


def test_an_interrupted_run_is_unknown() -> None:
    assert verdict(Routed().build(ended="interrupted")).exit_code == exits.INTERRUPTED


@pytest.mark.parametrize("case", stale_cases.FIXED.values(), ids=lambda case: case.name)
def test_each_case_is_as_expected_where_everything_fares_as_it_has_it(case: Case) -> None:
    told = verdict(Routed(case).build(fault=case.holds, expected=[case.expected["fine"].outcome]))
    assert (told.exit_code, told.outcome) == (exits.AS_EXPECTED, case.expected["fine"].outcome), told.reasons


@pytest.mark.parametrize("case", stale_cases.FIXED.values(), ids=lambda case: case.name)
def test_a_case_in_which_another_collection_waits_is_not_as_expected(case: Case) -> None:
    run = Routed(case)
    run.does("fine", "update other", at=ON_RELEASE)
    assert verdict(run.build(fault=case.holds)).exit_code == exits.NOT_AS_EXPECTED


def test_no_other_run_is_asked_for_it() -> None:
    assert judged(isolation, History().events()) is None
