"""`run update-lookup-stall --suite versions`: the same run on every server version that is installed; one table."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any, Final

import typer

from clusters.errors import Refused
from harness.commands.suites import Suite, teller, writable
from harness.output import as_json, say, table
from harness.report import versions
from harness.suites.versions import VERSIONS, compare

ONE_RUN: Final = ("cluster", "uri", "uri_file", "config", "server_version", "expect")


def _compare(given: dict[str, Any]) -> None:
    """Ends with the suite's exit code. Raises Refused."""
    SUITE.alone(given, ONE_RUN, "makes clusters of its own, of each version")
    chosen = given["version"] or list(VERSIONS)
    if given["version"] and given["findings"] is None:
        raise Refused("--version: some versions are no finding: say with --findings where their table goes")
    page: Path = given["findings"] or SUITE.page
    not_the_runs = (*SUITE.extra, *ONE_RUN, "runs", "json", "quiet")
    options = {name: value for name, value in given.items() if value not in (None, []) and name not in not_the_runs}
    with writable(page):
        compared = asyncio.run(compare(given["runs"], teller(given), chosen, options))
        page.write_text(versions.page(compared))
    if given["json"]:
        as_json([dataclasses.asdict(one) for one in compared.rows])
    else:
        table(versions.COLUMNS, [versions.cells(one) for one in compared.rows])
        say(f"finding {page}")
    raise typer.Exit(compared.exit_code)


SUITE: Final = Suite(
    name="versions",
    about=f"a run with these options on each of {', '.join(VERSIONS)}; half a minute each.",
    page=Path("docs/findings/versions.md"),
    written="table",
    part="version",
    part_about="Of the suite this version alone (may be repeated).",
    carry_out=_compare,
)
