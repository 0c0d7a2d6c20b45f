"""Two runs beside each other: on one scale from their first fault on, with one legend, and what differs in words."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness import cli, exits
from harness.report.page import BESIDE
from harness.report.page.comparison import beside, differences, origin
from harness.report.page.marks import Bar, Lane, Point, Section, Sheet
from history_builder import a_run
from report_parts import drawn_of, record_of


def _sheet(start: float, fault: float, end: float, style: str) -> Sheet:
    lanes = [Lane("f1", [Bar(fault, fault + 1, "opening", "")]), Lane("s1", [Bar(start, end, style, "")], [])]
    return Sheet(start, end, [Section("faults", lanes, "a note")])


def test_both_show_as_many_seconds_before_and_after_their_first_fault() -> None:
    ranges = [
        one["layout"]["xaxis"]["range"] for one in beside([_sheet(2, 10, 30, "silent"), _sheet(1, 4, 40, "quiet")])
    ]
    assert ranges == [[2, 46], [-4, 40]]


def test_there_is_one_legend_with_what_either_has() -> None:
    left, right = beside([_sheet(0, 1, 9, "silent"), _sheet(0, 1, 9, "quiet")])
    assert not left["layout"]["showlegend"]
    assert {trace["meta"] for trace in right["data"]} == {"opening", "silent", "quiet"}
    assert [trace["x"] for trace in right["data"] if trace["meta"] == "silent"] == [[]]
    assert left["layout"]["margin"]["r"] < right["layout"]["margin"]["r"]


def test_a_picture_alone_keeps_its_range_and_its_notes() -> None:
    (alone,) = beside([_sheet(2, 10, 30, "silent")])
    assert alone["layout"]["xaxis"]["range"] == [2, 30]
    assert alone["layout"]["annotations"][0]["text"] == "<b>faults, a note</b>"


def test_without_a_fault_the_scale_begins_where_the_picture_does() -> None:
    assert origin(Sheet(3, 9, [Section("run", [Lane("events", (), [Point(5, "happened", "")])])])) == 3


def test_what_differs_is_told_and_what_does_not_is_left_out(tmp_path: Path) -> None:
    one = drawn_of(a_run(parameters={"hold": 12.0}), tmp_path / "one").result
    other = drawn_of(a_run(parameters={"hold": 30.0}, fault=False), tmp_path / "other").result
    table = differences([one, other])
    assert '<tr><th scope="row">option hold</th><td>12.0</td><td>30.0</td></tr>' in table
    assert '<th scope="row">option fault</th><td>freeze</td><td>none</td>' in table
    assert "option threshold" not in table
    assert "Nothing that was given or found" in differences([one, dataclasses.replace(one)])


def test_two_runs_are_one_page_that_does_not_take_the_place_of_the_first_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (record_of(a_run(), tmp_path / name) for name in ("one", "other"))
    assert cli.run(["report", "one", "--beside", str(other.path), "--runs", str(tmp_path)]) == exits.AS_EXPECTED
    assert capsys.readouterr().out == f"report: {one.path / BESIDE}\n"
    page = (one.path / BESIDE).read_text()
    assert page.count("<article") == 2
    assert page.count("plotly.js v") == 1
    assert len(page.encode()) < 6_000_000


def test_a_png_is_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", "one", "--beside", "other", "--png"]) == exits.REFUSED
    assert capsys.readouterr().err == "mongofault: --png draws one run: leave --beside out\n"


def test_where_there_is_no_chromium_a_png_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = record_of(a_run(), tmp_path / "one")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    assert cli.run(["report", str(record.path), "--png"]) == exits.REFUSED
    error = capsys.readouterr().err
    assert "apt-get install chromium, or set BROWSER_PATH" in error
    assert error.count("\n") == 1
