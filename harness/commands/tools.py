"""`list`, `heal`, `doctor`: what there is, what was left behind, what this machine lacks."""

from __future__ import annotations

import asyncio
import dataclasses

import typer

import faults
from clusters import adopted, guard
from clusters.errors import Refused
from faults.options import describe
from harness import doctor as examination
from harness import exits, scenarios
from harness.output import as_json, complain, say, table

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


def heal_left_behind() -> None:
    """Heal it before something new is broken, and say so. What cannot be healed is left to `heal`, which says why."""
    done, failed, _noted = _healed()
    if done:
        complain(f"left behind by a killed run and undone: {'; '.join(done)}")
    if failed:
        complain(f"left behind by a killed run and NOT undone, see 'mongofault heal': {'; '.join(failed)}")


def _healed() -> tuple[list[str], list[str], list[str]]:
    """What was undone, what was not, and what there is to be said besides."""
    guard.sweep()
    found = guard.survey()
    done: list[str] = []
    failed = [str(error) for error in found.broken]
    failed += [
        f"{ledger.name}: what this line says is not known: {one}" for ledger in found.damaged for one in ledger.damage
    ]
    noted = [ledger.torn for ledger in found.abandoned if ledger.torn is not None]
    for ledger in found.abandoned:
        try:
            asyncio.run(adopted.let_in(ledger))
            report = guard.heal(ledger)
        except Refused as error:
            failed.append(f"{ledger.name}: {error}")
            continue
        except guard.LedgerHeld:
            continue  # its guardian was faster, and is at it
        done += [f"{ledger.name}: {record}" for record in report.done]
        failed += [f"{ledger.name}: {failure}" for failure in report.failed]
    return done, failed, noted


def heal(json: bool = Json) -> None:
    """Undo what killed runs left behind."""
    done, failed, noted = _healed()
    if json:
        as_json({"healed": done, "failed": failed, "noted": noted})
    else:
        for line in noted:
            say(line)
        for line in done:
            say(f"undone: {line}")
        for line in failed:
            say(f"not undone: {line}")
        if not done and not failed:
            say("nothing to heal")
    raise typer.Exit(exits.UNKNOWN if failed else exits.AS_EXPECTED)


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
