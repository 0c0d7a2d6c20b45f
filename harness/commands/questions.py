"""`run retry-overlap --suite questions`: every question that there is, asked of the server at hand; one page of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import typer

from clusters.errors import Refused
from harness.commands.suites import Suite, teller, writable
from harness.output import as_json, say, table
from harness.report import questions
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.parameters import build
from harness.suites.asked import QUESTIONS
from harness.suites.question import Question
from harness.suites.runs import RUNS
from harness.suites.suite import ask

TAKEN: Final = ("suite", "findings", "question", "seed", "runs", "json", "quiet")


def _ask(given: dict[str, Any]) -> None:
    """Ends with the suite's exit code. Raises Refused."""
    SUITE.alone(given, [name for name in given if name not in TAKEN], "asks with settings of its own")
    chosen = _chosen(given["question"])
    page: Path = given["findings"] or SUITE.page
    if chosen != list(QUESTIONS) and given["findings"] is None:
        raise Refused(
            "--question: the default finding has all questions: say with --findings FILE where the answers to some go"
        )
    seed = build(OverlapParameters, {} if given["seed"] is None else {"seed": given["seed"]}).seed
    with writable(page):
        found = asyncio.run(ask(given["runs"], teller(given), chosen, seed=seed))
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


SUITE: Final = Suite(
    name="questions",
    about="one experiment for each question, with settings of its own; takes a few minutes.",
    page=Path("docs/findings/retry-overlap.md"),
    written="finding",
    part="question",
    part_about="Of the suite this one alone, by its name (may be repeated); goes with --findings FILE. Names: "
    f"{', '.join(one.name for one in QUESTIONS)}.",
    carry_out=_ask,
)
