"""`run stale-shard --suite cases`: the scenario in every case that there is; one table."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any, Final

import typer

from clusters.errors import Refused
from harness.commands.suites import Suite, teller, writable
from harness.output import as_json, say, table
from harness.report import cases
from harness.suites.cases import RUNS, ask

TAKEN: Final = ("suite", "findings", "only", "seed", "server_version", "within", "runs", "json", "quiet")


def _ask(given: dict[str, Any]) -> None:
    """Ends with the suite's exit code. Raises Refused."""
    SUITE.alone(given, [name for name in given if name not in TAKEN], "asks with settings of its own")
    for name in given["only"]:
        if name not in RUNS:
            raise Refused(f"--only {name}: expected one of {', '.join(RUNS)}")
    if given["only"] and given["findings"] is None:
        raise Refused("--only: some cases are no finding: say with --findings where their table goes")
    if given["server_version"] is not None and given["findings"] is None:
        raise Refused(
            "--server-version: the finding is of the servers there are: say with --findings where this one goes"
        )
    page: Path = given["findings"] or SUITE.page
    options = {name: given[name] for name in ("seed", "server_version", "within") if given[name] is not None}
    with writable(page):
        told = asyncio.run(ask(given["runs"], teller(given), given["only"] or list(RUNS), options))
        page.write_text(cases.page(told))
    if given["json"]:
        as_json([dataclasses.asdict(one) for one in told.rows])
    else:
        if not given["quiet"]:
            table(cases.COLUMNS, [cases.cells(one) for one in told.rows])
        say(f"finding {page}")
    raise typer.Exit(told.exit_code)


SUITE: Final = Suite(
    name="cases",
    about="a run for each way in which a router becomes stale and its refresh is held; five minutes.",
    page=Path("docs/findings/stale-shard.md"),
    written="table",
    part="only",
    part_about=f"Of the suite this run alone (may be repeated). Names: {', '.join(RUNS)}.",
    carry_out=_ask,
)
