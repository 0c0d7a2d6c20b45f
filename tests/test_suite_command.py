"""`run retry-overlap --suite questions` from the command line: what it refuses, and two questions asked for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli, exits


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "all"], "--suite all: expected questions"),
        (["--suite", "questions", "--members", "3"], "leave out --members"),
        (["--suite", "questions", "--driver-option", "socketTimeoutMS=1"], "leave out --driver-option"),
        (["--suite", "questions", "--seed", "x"], "--seed x"),
        (["--suite", "questions", "--question", "why"], "--question why: expected one of procedure,"),
        (["--suite", "questions", "--question", "java"], "say with --findings"),
        (["--suite", "questions", "--findings", "/proc/none/finding.md"], "choose another --findings"),
        (["--question", "java"], "give --suite questions as well"),
        (["--findings", "finding.md"], "give --suite questions as well"),
    ],
)
def test_what_does_not_go_with_a_suite_is_refused_and_nothing_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert cli.run(["run", "retry-overlap", *arguments]) == exits.REFUSED
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_question_that_nothing_here_can_answer_is_open_without_a_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["--suite", "questions", "--question", "java", "--findings", "found.md", "--json"]
    assert cli.run(["run", "retry-overlap", *asked]) == exits.AS_EXPECTED
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["verdict"] == "open"
    assert "**open**: it takes a Java driver" in (tmp_path / "found.md").read_text()


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_two_questions_are_answered_by_a_real_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["--question", "resend-pymongo", "--question", "fail-command-before-checkout"]
    code = cli.run(["run", "retry-overlap", "--suite", "questions", *asked, "--findings", "found.md", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in document["answers"]] == ["confirmed", "confirmed"], document
    assert code == exits.AS_EXPECTED
    assert set(document["runs"]) == {"procedure"}
    page = (tmp_path / "found.md").read_text()
    assert "| sends of each execution | 2, 2, 2, 2 | 2, 2, 2, 2 |  |" in page
    assert "| sessions checked out while failCommand held the insert | 0 | 0 |  |" in page
    stored = next((tmp_path / "runs").glob("*-questions-*/answers.json"))
    assert json.loads(stored.read_text()) == document
