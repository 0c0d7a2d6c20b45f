"""What a night says of its cells: verdicts, what changed, the page, the cases. From tables, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clusters.errors import Refused
from harness import exits
from harness.lookups import lookup_path
from harness.nightly.cells import Cell
from harness.nightly.comparison import changes
from harness.nightly.results import LastNight, Night, Row, not_run, read_last, row
from harness.nightly.running import Ran
from harness.report import junit
from harness.report import nightly as report

OUT = Path("/out")
LAST_NIGHT = "2026-01-01T02:17:00+00:00"
TONIGHT = "2026-01-02T02:17:00+00:00"


def cell(fault: str = "freeze", version: str = "6.0.5", scenario: str = "update-lookup-stall") -> Cell:
    return Cell(f"{version}/{scenario}/{fault}/pymongo", version, scenario, fault, (), "pymongo", (), 60)


def ran(code: int | None = 0, result: dict[str, Any] | None = None, **more: Any) -> Ran:
    fields = {"ended": None, "last_words": "the last line", "record": OUT / "cells/1/runs/r", **more}
    return Ran(seconds=18.24, exit_code=code, result=result, log=OUT / "cells/1/output.log", **fields)


def came_to(outcome: str, verdict: str = "as expected", version: str = "6.0.5", **more: Any) -> dict[str, Any]:
    lookup = lookup_path(version, "stand-in")
    server = {"version": version, "git_version": "c9a99c1203", "router": "stand-in", "lookup": lookup}
    plain = {"counts": {outcome: 2}, "expected": ["stalled"], "reasons": []}
    return {"outcome": outcome, "verdict": verdict, "server": server, **plain, **more}


def a_row(of: Cell, outcome: str, *, night: str = TONIGHT, version: str = "6.0.5") -> Row:
    return row(of, "mongofault run", ran(result=came_to(outcome, version=version)), night, None, OUT)


def night(*rows: Row, last: LastNight | None = None, interrupted: bool = False) -> Night:
    began = None if last is None else last.began
    return Night("p.yml", TONIGHT, 7, 99.0, rows, changes(rows, last), began, interrupted)


def as_last(*rows: Row) -> LastNight:
    """As it comes out of the file that those rows were written to."""
    document = Night("p.yml", LAST_NIGHT, 7, 99.0, rows, [], None).document
    return LastNight.model_validate(json.loads(json.dumps(document)))


@pytest.mark.parametrize(
    ("what", "verdict", "reason"),
    [
        (ran(0, came_to("stalled")), "as expected", None),
        (ran(1, came_to("bounded", "not as expected", reasons=["expected stalled"])), "not as expected", "expected st"),
        (ran(2, came_to("none", "unknown", reasons=["traffic: too little"])), "unknown", "traffic: too little"),
        (ran(3, None), "unknown", "exit code 3: the last line"),
        (ran(254, None, last_words=None), "unknown", "exit code 254: without a word"),
        (ran(0, None), "unknown", "exit code 0: the last line"),
        (ran(0, came_to("stalled", "not as expected")), "unknown", "exit code 0: the last line"),
        (ran(-9, None), "unknown", "its process was killed by SIGKILL"),
        (ran(-9, came_to("stalled")), "unknown", "its process was killed by SIGKILL"),
        (ran(130, came_to("none", "unknown"), ended="not done within 60 s, and ended"), "unknown", "not done within"),
        (ran(0, came_to("stalled"), left="not healed within 60 s of its end"), "unknown", "not healed within"),
    ],
)
def test_the_verdict_is_the_runs_own_only_where_it_came_to_its_end(what: Ran, verdict: str, reason: str | None) -> None:
    found = row(cell(), "mongofault run", what, TONIGHT, None, OUT)
    assert found.verdict == verdict
    assert found.reasons == () if reason is None else found.reasons[0].startswith(reason)
    assert (found.known is None) is (verdict == "unknown")
    assert found.log == "cells/1/output.log"


def test_what_is_newly_stalled_stands_first_then_newly_bounded_then_the_rest() -> None:
    faults = ("cut", "kill", "latency", "freeze", "restart")
    before = ["no effect", "stalled", "stalled", "no effect", "stalled"]
    after = ["error surfaced", "stalled", "bounded", "stalled", "bounded"]
    last = as_last(
        *(a_row(cell(one), was, night=LAST_NIGHT, version="6.0.4") for one, was in zip(faults, before, strict=True))
    )
    found = changes([a_row(cell(one), now) for one, now in zip(faults, after, strict=True)], last)
    assert [(one.change, one.cell.split("/")[2]) for one in found] == [
        ("newly stalled", "freeze"),
        ("newly bounded", "latency"),
        ("newly bounded", "restart"),
        ("newly error surfaced", "cut"),
    ]
    assert (found[0].was, found[0].now, found[0].since) == ("no effect (6.0.4)", "stalled (6.0.5)", LAST_NIGHT)


def test_a_night_without_a_result_hides_no_change_and_is_told_once() -> None:
    first = a_row(cell(), "stalled", night=LAST_NIGHT)
    lost = row(cell(), "", ran(-9), TONIGHT, first.known, OUT)
    assert [(one.change, one.now) for one in changes([lost], as_last(first))] == [
        ("no more known", "its process was killed by SIGKILL")
    ]
    lost_again = row(cell(), "", ran(-9), TONIGHT, lost.known, OUT)
    assert changes([lost_again], as_last(lost)) == []
    (found,) = changes([a_row(cell(), "bounded")], as_last(lost_again))
    assert (found.change, found.was, found.since) == ("newly bounded", "stalled (6.0.5)", LAST_NIGHT)


def test_a_cell_to_which_the_night_did_not_come_keeps_what_was_known_of_it() -> None:
    first = a_row(cell(), "stalled", night=LAST_NIGHT)
    assert not_run(cell(), "", "the night was over", first.known).known == first.known


def test_nothing_has_changed_of_a_cell_that_is_new_or_as_it_was() -> None:
    last = as_last(a_row(cell(), "stalled"))
    assert changes([a_row(cell(), "stalled"), a_row(cell("cut"), "stalled")], last) == []
    assert changes([a_row(cell(), "stalled")], None) == []


FAILED = row(cell("cut"), "run it", ran(1, came_to("bounded", "not as expected", reasons=["a | b <c>"])), "", None, OUT)
LOST = row(cell("kill"), "run it", ran(-9), "", None, OUT)


@pytest.mark.parametrize(
    ("rows", "interrupted", "code", "headline"),
    [
        ([a_row(cell(), "stalled")], False, exits.AS_EXPECTED, "1 of 1 cells as expected"),
        ([FAILED, LOST], False, exits.NOT_AS_EXPECTED, "0 of 2 cells as expected, 1 not as expected, 1 unknown"),
        ([a_row(cell(), "stalled"), LOST], False, exits.UNKNOWN, "1 of 2 cells as expected, 1 unknown"),
        ([not_run(cell(), "", "late", None)], False, exits.UNKNOWN, "0 of 1 cells as expected, 1 not run"),
        ([FAILED], True, exits.INTERRUPTED, "0 of 1 cells as expected, 1 not as expected"),
    ],
)
def test_the_exit_code_is_that_of_the_gravest_cell(
    rows: list[Row], interrupted: bool, code: int, headline: str
) -> None:
    found = night(*rows, interrupted=interrupted)
    assert (found.exit_code, found.headline) == (code, headline)


def test_on_the_page_what_changed_stands_before_the_table_and_first_in_it() -> None:
    last = as_last(a_row(cell(), "stalled", night=LAST_NIGHT), a_row(cell("cut"), "stalled", night=LAST_NIGHT))
    lines = report.page(night(a_row(cell(), "stalled"), FAILED, LOST, last=last)).splitlines()
    assert lines[0] == "# Nightly: 1 of 3 cells as expected, 1 not as expected, 1 unknown"
    changed = lines.index(
        "| newly bounded | 6.0.5/update-lookup-stall/cut/pymongo | stalled (6.0.5), 2026-01-01 | bounded (6.0.5) |"
    )
    table = lines.index("| version | router | scenario | fault | driver | outcome | expected | verdict | seconds |")
    assert changed < table
    assert [one.split(" | ")[3] for one in lines[table + 2 : table + 5]] == ["cut", "freeze", "kill"]
    assert lines[table + 3] == (
        "| 6.0.5 | stand-in | update-lookup-stall | freeze | pymongo | stalled | stalled | as expected | 18.2 |"
    )
    assert "- a | b &lt;c>" in lines
    assert "run it" in lines


def test_a_cell_is_called_by_its_server_where_the_plan_says_less() -> None:
    page = report.page(night(a_row(cell(version="mongo:8.0"), "stalled", version="8.0.4")))
    assert "| mongo:8.0 (8.0.4) |" in page
    assert "There is no night before to compare this one with." in page


def test_of_servers_before_6_0_the_row_says_that_there_is_no_routed_lookup_and_that_their_mongos_was_not_tested() -> (
    None
):
    claim = "no effect: no shard-side routed lookup; its mongos not tested"
    old = a_row(cell(version="5.0.4"), "no effect", version="5.0.4")
    assert f"| {claim} |" in report.page(night(old))
    assert claim not in report.page(night(a_row(cell(), "no effect")))
    assert claim not in report.page(night(a_row(cell(scenario="retry-overlap"), "no effect", version="5.0.4")))


def test_a_ci_server_can_read_the_cases_whatever_a_log_holds(tmp_path: Path) -> None:
    (tmp_path / "cells/1").mkdir(parents=True)
    (tmp_path / "cells/1/output.log").write_bytes(b"first\nstream \x1b[31m<silent> & \xff\x00 ]]>\n")
    rows = [a_row(cell(), "stalled"), FAILED, LOST, not_run(cell("late"), "run it", "the night was over", None)]
    text = junit.document("nightly", report.cases(night(*rows), tmp_path), began=TONIGHT)
    suite = ElementTree.fromstring(text.encode()).find("testsuite")
    assert suite is not None
    of_suite = ("name", "tests", "failures", "errors", "skipped", "time", "timestamp")
    assert [suite.get(one) for one in of_suite] == ["nightly", "4", "1", "1", "1", "54.600", TONIGHT]
    cases = suite.findall("testcase")
    assert cases[0].attrib == {
        "classname": "nightly.6.0.5",
        "name": "update-lookup-stall/freeze/pymongo",
        "time": "18.200",
    }
    assert [[part.tag for part in one] for one in cases] == [
        ["properties"],
        ["properties", "failure", "system-out"],
        ["properties", "error", "system-out"],
        ["skipped"],
    ]
    failure, output = cases[1].find("failure"), cases[1].findtext("system-out")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("a | b <c>", "a | b <c>\nrun it")
    assert output == "first\nstream �[31m<silent> & �� ]]>"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "began": "x", "cells": []}'])
def test_results_of_another_kind_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(Refused, match=r"expected the results\.json of a night, of schema 1"):
        read_last(tmp_path / "r.json")


def test_fields_that_came_later_do_no_harm_to_a_comparison(tmp_path: Path) -> None:
    document = night(a_row(cell(), "stalled")).document
    (tmp_path / "r.json").write_text(json.dumps({**document, "later": 1, "cells": [{**document["cells"][0], "x": 2}]}))
    last = read_last(tmp_path / "r.json")
    assert last is not None
    assert changes([a_row(cell(), "bounded")], last)[0].change == "newly bounded"
    assert read_last(tmp_path / "absent.json") is None
