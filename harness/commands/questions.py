"""`run retry-overlap --suite questions`: every question that there is, asked of the server at hand; one page of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

from clusters.errors import Refused
from harness.commands.pages import writable
from harness.output import as_json, say, table
from harness.report import questions
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.parameters import build
from harness.suites.asked import QUESTIONS
from harness.suites.question import Question
from harness.suites.runs import RUNS
from harness.suites.suite import ask

SUITES: Final = ("questions",)
FINDINGS: Final = Path("docs/findings/retry-overlap.md")

EXTRA: Final[dict[str, Any]] = {
    "suite": (
        str,
        typer.Option(
            None,
            "--suite",
            help="'questions': one experiment for each question, with settings of its own; takes a few minutes.",
        ),
    ),
    "findings": (
        Path,
        typer.Option(None, "--findings", help=f"Where the suite's finding is written. [default: {FINDINGS}]"),
    ),
    "question": (
        list[str],
        typer.Option(
            [],
            "--question",
            help="Of the suite this one alone, by its name (may be repeated); goes with --findings FILE. Names: "
            f"{', '.join(one.name for one in QUESTIONS)}.",
        ),
    ),
}
TAKEN: Final = ("suite", "findings", "question", "seed", "runs", "json", "quiet")


def instead(body: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """The command's body, but for where a suite is asked for."""

    def either(given: dict[str, Any]) -> None:
        if given["suite"] is not None:
            _ask(given)
        if given["findings"] is not None or given["question"]:
            raise Refused("--findings and --question are the suite's: give --suite questions as well")
        body({name: value for name, value in given.items() if name not in EXTRA})

    return either


def _ask(given: dict[str, Any]) -> None:
    """Ends with the suite's exit code. Raises Refused."""
    if given["suite"] not in SUITES:
        raise Refused(f"--suite {given['suite']}: expected {', '.join(SUITES)}")
    others = [name for name, value in given.items() if value not in (None, [], False) and name not in TAKEN]
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise Refused(f"--suite {given['suite']} asks with settings of its own: leave out {named}")
    chosen = _chosen(given["question"])
    page: Path = given["findings"] or FINDINGS
    if chosen != list(QUESTIONS) and given["findings"] is None:
        raise Refused(
            "--question: the default finding has all questions: say with --findings FILE where the answers to some go"
        )
    seed = build(OverlapParameters, {} if given["seed"] is None else {"seed": given["seed"]}).seed
    silent = given["json"] or given["quiet"]
    with writable(page):
        found = asyncio.run(ask(given["runs"], (lambda _line: None) if silent else say, chosen, seed=seed))
        page.write_text(questions.page(found, RUNS))
    if given["json"]:
        as_json(found.document)
    else:
        if not given["quiet"]:
            table(("question", "answer", ""), questions.rows(found))
        say(f"{questions.summary(found)}; finding {page}")
    raise typer.Exit(found.exit_code)


def _chosen(names: list[str]) -> list[Question]:
    known = {one.name: one for one in QUESTIONS}
    for name in names:
        if name not in known:
            raise Refused(f"--question {name}: expected one of {', '.join(known)}")
    return [one for one in QUESTIONS if not names or one.name in names]
