"""`run` and `check`: ask a scenario's question of a cluster; judge a stored record again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from clusters import adopted
from clusters.errors import Refused
from clusters.uri import Uri, needed
from harness import exits, scenarios
from harness.commands import cases, options, questions, versions
from harness.commands.suites import Suite
from harness.history import HistoryError
from harness.interrupts import interruptible
from harness.output import as_json, complain, out, say
from harness.record import Record
from harness.report import console
from harness.report.live import View, make_view
from harness.result import Result
from harness.run import Run
from harness.scenarios.base import Scenario
from harness.scenarios.parameters import build, named
from harness.scenarios.retry_overlap import RetryOverlap
from harness.scenarios.stale_shard import StaleShard
from harness.scenarios.update_lookup_stall import UpdateLookupStall

SUITES: Mapping[type[Scenario], Suite] = {
    RetryOverlap: questions.SUITE,
    UpdateLookupStall: versions.SUITE,
    StaleShard: cases.SUITE,
}
EXTRA_NAMES = ("runs", "json", "quiet", "config")

app = typer.Typer(help="Ask a scenario's question of a real cluster.", no_args_is_help=True, rich_markup_mode=None)

EXTRA: dict[str, Any] = {
    "uri": (str, typer.Option(None, "--uri", help="An adopted cluster to run on, by its URI without a password.")),
    "uri_file": (Path, typer.Option(None, "--uri-file", help="The same, in a file that holds the URI.")),
    "config": (Path, typer.Option(None, "--config", help="YAML file of parameters; options given here go first.")),
    "runs": (Path, typer.Option(Path("runs"), "--runs", help="Directory for the run's record.")),
    "json": (bool, typer.Option(False, "--json", help="Print result.json instead of text.")),
    "quiet": (bool, typer.Option(False, "--quiet", help="Print the verdict alone.")),
}


def chosen_of(given: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line."""
    return {name: value for name, value in given.items() if value not in (None, [])}


def located(given: dict[str, Any]) -> Uri | None:
    """Put the name of the cluster in the place of its URI, which is given back.

    None where there is no URI: a run does not go to what MONGODB_URI says without being told to. Raises Refused.
    """
    argument, file = given.pop("uri"), given.pop("uri_file")
    if argument is None and file is None:
        return None
    if given["cluster"] is not None:
        raise Refused("--cluster and a URI both say which cluster: leave one of them out")
    uri = needed(argument, file)
    given["cluster"] = asyncio.run(interruptible(adopted.named(uri)))
    return uri


def execute(scenario: type[Scenario], given: dict[str, Any], uri: Uri | None = None) -> None:
    """A run with the options of its command, its URI located; ends with its exit code."""
    runs, json, quiet, config = (given.pop(name) for name in EXTRA_NAMES)
    parameters = _parameters(scenario, config, chosen_of(given))
    view = make_view(live=not (json or quiet), terminal=out.is_terminal)
    result = asyncio.run(_run(scenario(parameters), runs, view, uri))
    _print(result, json=json, quiet=quiet)
    if result.exit_code == exits.INTERRUPTED:
        complain("interrupted: everything was healed and removed; the record is kept")
    leave_report(Record(Path(result.document["record"])), result, told=not (json or quiet))
    raise typer.Exit(result.exit_code)


def _body(scenario: type[Scenario], given: dict[str, Any]) -> None:
    uri = located(given)
    execute(scenario, given, uri)


for _name, _scenario in scenarios.SCENARIOS.items():
    _run_it: Callable[[dict[str, Any]], None] = partial(_body, _scenario)
    _extra = EXTRA
    if _suite := SUITES.get(_scenario):
        _run_it, _extra = _suite.instead(_run_it), {**EXTRA, **_suite.extra}
    app.command(_name)(options.command(_scenario.model, _run_it, _scenario.question, _extra))


@app.callback()
def _several() -> None:
    """Ask a scenario's question of a real cluster."""


def _parameters(scenario: type[Scenario], config: Path | None, chosen: dict[str, Any]) -> Any:
    """The scenario's parameters: those of the file under those of the command line. Raises Refused."""
    if config is None:
        return build(scenario.model, chosen)
    return build(scenario.model, {**named(scenario.model, _from_file(config), f"--config {config}"), **chosen})


async def _run(scenario: Scenario, runs: Path, view: View, uri: Uri | None) -> Result:
    with view:
        return await Run(scenario, runs, view, uri).execute()


def check(
    run: Path = typer.Argument(..., metavar="RUN", show_default=False, help="A run's directory, or its history.jsonl."),
    json: bool = typer.Option(False, "--json", help="Print result.json instead of text."),
    quiet: bool = typer.Option(False, "--quiet", help="Print the verdict alone."),
) -> None:
    """Judge a stored record again, without a cluster."""
    try:
        result = Record.at(run).judge()
        _print(result, json=json, quiet=quiet)
    except HistoryError as error:
        raise Refused(str(error)) from None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"{run} cannot be judged, a field is not what it should be: {error!r}"[:300]) from None
    raise typer.Exit(result.exit_code)


def leave_report(record: Record, result: Result, *, told: bool) -> None:
    """Draw the report, and name it; that it cannot be drawn changes nothing of what the run came to."""
    try:
        from harness.report import page

        path = page.leave(record, result)
    except (Exception, KeyboardInterrupt) as error:
        why = f"{type(error).__name__} {error}".strip()
        complain(f"the report was not drawn: {why} (mongofault report {record.path} tries again)")
        return
    if told:
        say(f"report: {path}")


def _print(result: Result, *, json: bool, quiet: bool) -> None:
    if json:
        as_json(result.document)
    elif quiet:
        say(result.headline)
    else:
        console.show(result, out)
    sys.stdout.flush()


def _from_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--config {path}: {getattr(error, 'strerror', None) or 'expected text in UTF-8'}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise Refused(f"--config {path}: expected YAML; {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise Refused(f"--config {path}: expected a mapping such as 'streams: 4', found {document!r}")
    return {str(name): value for name, value in document.items()}
