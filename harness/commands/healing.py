"""`heal`: what killed runs left behind is undone; so it is before a command breaks something new."""

from __future__ import annotations

import asyncio

import typer

from clusters import adopted, guard
from clusters.errors import Refused
from harness import exits
from harness.output import as_json, complain, say

Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")


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
