"""`nightly`: a plan of versions, scenarios, faults and drivers, carried out; and what is not as it was last night."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from pathlib import Path

import typer

from clusters.errors import Refused
from harness.interrupts import interruptible
from harness.measures import duration
from harness.nightly import night, plan, results, servers
from harness.nightly.cells import Cell, cells
from harness.nightly.running import typed
from harness.nightly.servers import Server
from harness.output import as_json, complain, say, table
from harness.report import nightly as report

OUT = Path("nightly")


def nightly(
    file: Path = typer.Argument(..., metavar="PLAN", show_default=False, help="YAML file of the plan."),
    versions: list[str] = typer.Option(
        [], "--versions", help="A version in the place of the plan's (may be repeated)."
    ),
    only: list[str] = typer.Option([], "--only", help="Cells of this name or pattern alone (may be repeated)."),
    out: Path = typer.Option(OUT, "--out", help="Directory for results.json, summary.md, junit.xml, logs and records."),
    last: Path = typer.Option(
        None, "--last", help="results.json of the night to compare with. [default: the one in --out]"
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="List the cells and run nothing."),
    json: bool = typer.Option(False, "--json", help="Print results.json instead of text."),
    quiet: bool = typer.Option(False, "--quiet", help="Print the summary's first line alone."),
) -> None:
    """Run every cell of a plan, and say what is not as it should be, or not as it was last night."""
    asked = plan.read(file)
    seed = secrets.randbelow(1 << 31) if asked.seed is None else asked.seed
    chosen = cells(asked, str(file), versions=versions, only=only, seed=seed)
    known = {one.version: servers.server(one.version) for one in chosen}
    if dry_run:
        _list(chosen, known, json=json)
        return
    lacking = [one.lacking for one in known.values() if one.lacking is not None]
    if lacking:
        raise Refused("; ".join(lacking))
    compared = out / night.RESULTS if last is None else last
    before = results.read_last(compared)
    if last is not None and before is None:
        complain(f"--last {last} is not there: this night is compared with none")
    what = night.Asked(
        plan=str(file),
        cells=chosen,
        servers=known,
        limit=asked.limits.all,
        seed=seed,
        out=out.absolute(),
        last=before,
    )
    done = asyncio.run(interruptible(night.through(what, (lambda _line: None) if json or quiet else say)))
    _print(done, out, json=json, quiet=quiet)
    raise typer.Exit(done.exit_code)


def _list(chosen: Sequence[Cell], known: dict[str, Server], *, json: bool) -> None:
    commands = [typed(one, known[one.version]) for one in chosen]
    if json:
        fields = ("cell", "limit", "command", "lacking")
        as_json(
            [
                dict(zip(fields, (one.name, one.limit, command, known[one.version].lacking), strict=True))
                for one, command in zip(chosen, commands, strict=True)
            ]
        )
        return
    rows = [(one.name, duration(one.limit), command) for one, command in zip(chosen, commands, strict=True)]
    table(("cell", "limit", "command"), rows)
    for one in known.values():
        if one.lacking is not None:
            say(f"lacking: {one.lacking}")


def _print(done: results.Night, out: Path, *, json: bool, quiet: bool) -> None:
    if json:
        as_json(done.document)
        return
    if not quiet:
        say("")
        if done.changes:
            table((f"changed since {done.compared_with}", "cell", "was", "now"), report.changed(done))
            say("")
        table(report.COLUMNS, report.rows(done))
        say("")
        for row in done.rows:
            if row.verdict != "as expected":
                say(report.line(row))
                say(f"    {row.command}")
        say(f"{out / night.SUMMARY}, {out / night.JUNIT}, {out / night.RESULTS}")
    say(done.headline)
