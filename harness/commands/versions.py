"""`run update-lookup-stall --suite versions`: the same run on every server version that is installed; one table."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

from clusters.errors import Refused
from harness.commands.pages import writable
from harness.output import as_json, say, table
from harness.report import versions
from harness.suites.versions import VERSIONS, compare

SUITES: Final = ("versions",)
FINDINGS: Final = Path("docs/findings/versions.md")

EXTRA: Final[dict[str, Any]] = {
    "suite": (
        str,
        typer.Option(
            None,
            "--suite",
            help=f"'versions': a run with these options on each of {', '.join(VERSIONS)}; half a minute each.",
        ),
    ),
    "findings": (
        Path,
        typer.Option(None, "--findings", help=f"Where the suite's table is written. [default: {FINDINGS}]"),
    ),
    "version": (
        list[str],
        typer.Option([], "--version", help="Of the suite this version alone (may be repeated)."),
    ),
}
ONE_RUN: Final = ("cluster", "uri", "uri_file", "config", "server_version", "expect")


def instead(body: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """The command's body, but for where the suite is asked for."""

    def either(given: dict[str, Any]) -> None:
        if given["suite"] is not None:
            _compare(given)
        if given["findings"] is not None or given["version"]:
            raise Refused("--findings and --version are the suite's: give --suite versions as well")
        body({name: value for name, value in given.items() if name not in EXTRA})

    return either


def _compare(given: dict[str, Any]) -> None:
    """Ends with the suite's exit code. Raises Refused."""
    if given["suite"] not in SUITES:
        raise Refused(f"--suite {given['suite']}: expected {', '.join(SUITES)}")
    others = [name for name in ONE_RUN if given[name] not in (None, [])]
    if others:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise Refused(f"--suite versions makes clusters of its own, of each version: leave out {named}")
    chosen = given["version"] or list(VERSIONS)
    if given["version"] and given["findings"] is None:
        raise Refused("--version: some versions are no finding: say with --findings where their table goes")
    page: Path = given["findings"] or FINDINGS
    silent = given["json"] or given["quiet"]
    not_the_runs = (*EXTRA, *ONE_RUN, "runs", "json", "quiet")
    options = {name: value for name, value in given.items() if value not in (None, []) and name not in not_the_runs}
    with writable(page):
        compared = asyncio.run(compare(given["runs"], (lambda _line: None) if silent else say, chosen, options))
        page.write_text(versions.page(compared))
    if given["json"]:
        as_json([dataclasses.asdict(one) for one in compared.rows])
    else:
        table(versions.COLUMNS, [versions.cells(one) for one in compared.rows])
        say(f"finding {page}")
    raise typer.Exit(compared.exit_code)
