"""The table of the cases of stale-shard, from results of hand-made histories; and that no case is left out."""

from __future__ import annotations

import pytest
from rich.console import Console

from harness import result
from harness.report import cases as report
from harness.report import console
from harness.scenarios.parameters import build
from harness.scenarios.stale_cases import CASES, FIXED, isolation
from harness.scenarios.stale_shard import StaleParameters, StaleShard
from harness.suites.cases import RUNS, Row, Told, row
from routing_parts import Routed

GIVEN_UP = isolation("split", "kill-config", 25.0)


def judged(run: Routed, name: str = "split") -> Row:
    found = result.of(run.build(expected=[run.case.expected["fine"].outcome]).events(), "runs/x")
    return row(name, run.case.about, found.document, found.headline, found.exit_code)


def cells(one: Row) -> dict[str, str]:
    return dict(zip(report.COLUMNS, report.cells(one), strict=True))


def test_every_case_is_a_run_of_the_suite_with_parameters_that_go_together() -> None:
    asked = {name: StaleShard(build(StaleParameters, given)) for name, given in RUNS.items()}
    assert {one.case.name for one in asked.values()} == set(CASES)
    assert {one.parameters.hold for one in asked.values() if one.parameters.hold_by == "freeze-config"} == {3, 12, 45}
    assert {one.parameters.hold for one in asked.values() if one.parameters.hold_by == "kill-config"} == {3, 25}


def test_a_row_says_who_waited_and_what_failed_through_either_router() -> None:
    found = cells(judged(Routed()))
    assert found["fine: who waited"] == "first find B, second find B, second update B"
    assert found["fine: errors"] == "304 ShardInvalidatedForTargeting: probe B"
    assert (found["coarse: who waited"], found["coarse: errors"]) == ("all", "50: probe B")
    assert found["verdict"] == "as expected"


def test_operations_that_gave_up_are_told_apart_from_those_that_waited_until_the_release() -> None:
    run = Routed(GIVEN_UP)
    for setting, expected in GIVEN_UP.expected.items():
        for name in expected.waiting:
            run.does(setting, name, at=0.9, code=expected.errors[name][0])
    found = cells(judged(run))
    assert found["fine: who waited"].endswith(", and gave up")
    assert "133: first find B, second find B" in found["fine: errors"]
    assert "second update B" in found["fine: errors"].partition("304")[2]


def test_the_page_names_each_run_with_its_options_and_says_what_differs() -> None:
    run = Routed(FIXED["recipient-write"])
    run.does("fine", "update A")
    rows = [judged(Routed()), judged(run, "recipient-write")]
    page = report.page(Told(rows, {"version": "6.0.5", "git_version": "c9a99c1203ea"}, 7))
    assert "- server: mongod 6.0.5 (c9a99c1203)" in page
    assert "`--case recipient-write`. not as expected" in page
    assert "update A was to end with 82, and ended ok after" in page
    assert "| split | first find B, second find B, second update B |" in page


def test_a_run_that_came_to_nothing_has_a_row_all_the_same() -> None:
    run = Routed()
    run.begun({}, ["isolated"])
    run.add(1.0, "run.ended", reason="failed", detail="no memory")
    found = result.of(run.events(), "runs/x")
    one = row("split", "", found.document, found.headline, found.exit_code)
    assert cells(one) == dict.fromkeys(report.COLUMNS, "") | {"case": "split", "verdict": "unknown"}
    assert "no memory" in report.page(Told([one], {}, 7))


@pytest.mark.parametrize("case", [Routed().case, GIVEN_UP, *FIXED.values()], ids=lambda case: case.name)
def test_the_text_of_every_case_has_each_operation_once(case: object, capsys: pytest.CaptureFixture[str]) -> None:
    run = Routed(case)  # type: ignore[arg-type]
    found = result.of(run.build().events(), "runs/x")
    console.show(found, Console(width=250))
    lines = capsys.readouterr().out.splitlines()
    for operation in run.case.operations:
        (line,) = [one for one in lines if one.startswith(f"{operation.name} ")]
        assert ("waited" in line) == (operation.name in run.case.expected["coarse"].waiting)
