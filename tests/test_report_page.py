"""The page of a report: one file, complete, whose text can hold nothing that the browser would obey."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import cli, exits
from harness.commands import runs
from harness.record import HISTORY
from harness.report import page
from harness.report.page.figure import counted, figure, shortened, wrapped
from harness.report.page.html_page import embedded
from history_builder import History, a_run
from report_parts import record_of


def test_a_page_holds_verdict_findings_figure_and_the_library_that_draws_it(tmp_path: Path) -> None:
    html = _page(a_run(silent={"s1": [(6.2, 18.2)], "s2": [(6.2, 18.2)]}), tmp_path)
    assert "<h1>update-lookup-stall, freeze on shard0-2</h1>" in html
    assert re.search(r'class="verdict (good|bad|open)"><b>[^<]+\.</b>', html)
    assert "Every acknowledged write&#x27;s event is delivered once per stream" in html
    drawn = _unpacked(html.partition('id="figures">')[2].partition("</script>")[0])
    assert {"phase", "proven"} <= {trace["meta"] for trace in drawn[0]["data"]}
    assert "plotly.js v" in html
    assert len(html.encode()) < 6_000_000


def test_a_page_asks_the_network_for_nothing(tmp_path: Path) -> None:
    html = _page(a_run(), tmp_path)
    ours = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", ours) == []
    assert "url(" not in ours


def test_text_of_a_history_is_text_on_the_page(tmp_path: Path) -> None:
    history = a_run()
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    history.add(9.0, "stream.error", stream="s1", error=f"Error: {evil}", labels=[])
    history.add(9.0, "cluster", what=evil)
    html = _page(history, tmp_path)
    assert "<script>alert" not in html
    assert "<img" not in re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("value", ["</script>", "<!--", "a < b", {"x": ["<"]}, "é\u2028"])
def test_embedded_figures_say_the_same_in_letters_that_end_no_script(value: object) -> None:
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", embedded(value))
    assert _unpacked(embedded(value)) == value


WORDS = st.lists(st.integers(0, 300).map(lambda length: "w" * length), max_size=6).map(" ".join)


@given(WORDS)
def test_a_text_of_any_words_is_put_in_lines_that_fit_and_loses_none_of_it(text: str) -> None:
    lines = list(wrapped(text, 100))
    assert all(len(line) <= 100 for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == text.replace(" ", "")


def test_plotly_knows_every_property_of_the_figure(tmp_path: Path) -> None:
    graph = pytest.importorskip("plotly.graph_objects")
    drawn = figure(page.draw(record_of(a_run(), tmp_path)).picture.sheet)
    assert len(graph.Figure(drawn).data) == len(drawn["data"])
    assert counted(drawn) > 0


@pytest.mark.parametrize(("streams", "axes"), [(2, ["xaxis"]), (40, ["xaxis", "xaxis2"])])
def test_a_picture_higher_than_a_screen_has_its_times_above_too(streams: int, axes: list[str], tmp_path: Path) -> None:
    history = a_run(streams=[f"s{number}" for number in range(streams)])
    layout = figure(page.draw(record_of(history, tmp_path)).picture.sheet)["layout"]
    assert [name for name in layout if name.startswith("xaxis")] == axes


def test_a_run_cut_short_has_a_page_as_well(tmp_path: Path) -> None:
    history = History()
    history.add(0.1, "phase", name="bring-up")
    assert "a run cut short, no fault" in _page(history, tmp_path)
    assert "a run cut short, no fault" in _page(History(), tmp_path / "empty")


@pytest.mark.parametrize("label", ["s1", "x" * 34, "f12 pause-replication shard0-2 with options"])
def test_a_long_label_keeps_its_ends(label: str) -> None:
    short = shortened(label)
    assert len(short) <= 34
    assert short[:10] == label[:10]
    assert short[-10:] == label[-10:]


def test_report_finds_a_run_by_its_name_and_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = record_of(a_run(), tmp_path / "runs" / "one")
    assert cli.run(["report", "one", "--runs", str(tmp_path / "runs")]) == exits.AS_EXPECTED
    assert capsys.readouterr().out.splitlines() == [f"report: {record.path / page.NAME}"]
    assert (record.path / page.NAME).read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere is no record of a run: expected a directory, or a name under runs"),
        (["there"], "there is no record of a run: expected a directory with a history.jsonl"),
        (["torn"], "torn/history.jsonl:1: expected an event as JSON"),
        (["odd"], "odd cannot be drawn, a field is not what it should be"),
        (["one", "--into", "nowhere/report.html"], "nowhere/report.html cannot be written: No such file or directory"),
    ],
    ids=["no such run", "no record", "no history", "no fields", "nowhere to write"],
)
def test_a_run_that_cannot_be_drawn_is_one_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    record_of(a_run(), tmp_path / "one")
    for name, line in (("torn", "{\n"), ("odd", '{"t":0,"wall":0,"source":"x","kind":"stream.state","stream":"s"}\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / HISTORY).write_text(line)
    assert cli.run(["report", *arguments]) == exits.REFUSED
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("stream"), KeyboardInterrupt()])
def test_a_report_that_cannot_be_drawn_is_one_line_and_changes_nothing_of_the_run(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("harness.report.page.write", fails)
    record = record_of(a_run(), tmp_path)
    runs.leave_report(record, record.judge(), told=True)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"mongofault: the report was not drawn: {type(error).__name__}")
    assert told.err.endswith(f"(mongofault report {tmp_path} tries again)\n")
    assert told.err.count("\n") == 1


def _unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def _page(history: History, directory: Path) -> str:
    path = directory / page.NAME
    page.write([page.draw(record_of(history, directory))], path)
    return path.read_text()
