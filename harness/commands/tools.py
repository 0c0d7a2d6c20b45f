"""`list`, `doctor`: what there is, what this machine lacks."""

from __future__ import annotations

import dataclasses

import typer

import faults
from faults.options import describe
from harness import doctor as examination
from harness import exits, scenarios
from harness.output import as_json, say, table

Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")


def list_(json: bool = Json) -> None:
    """List the scenarios and the faults there are."""
    questions = scenarios.questions()
    found = {name: faults.summary(name) for name in faults.names()}
    options = {name: describe(faults.by_name(name).options) for name in found}
    if json:
        as_json({"scenarios": questions, "faults": found, "fault_options": options})
        return
    table(("scenario", "question"), list(questions.items()))
    say("")
    table(("fault", "what it does", "options"), [(name, found[name], options[name]) for name in found])


def doctor(json: bool = Json) -> None:
    """Say what this machine lacks for clusters."""
    found = examination.examine()
    if json:
        as_json([dataclasses.asdict(one) for one in found])
    else:
        table(
            ("subject", "", "found"),
            [(one.subject, one.level, one.found + (f" -> {one.advice}" if one.advice else "")) for one in found],
        )
    missing = any(one.level == "missing" for one in found)
    raise typer.Exit(exits.UNKNOWN if missing else exits.AS_EXPECTED)
