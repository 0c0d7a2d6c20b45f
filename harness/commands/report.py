"""`report`: a stored run as a page to look at, or two of them beside each other."""

from __future__ import annotations

from pathlib import Path

import typer

from clusters.errors import Refused
from harness.history import HistoryError
from harness.output import say
from harness.record import Record
from harness.report import page
from harness.report.page import png


def report(
    run: str = typer.Argument(..., metavar="RUN", help="A run's directory, or its name under --runs."),
    beside: str = typer.Option(None, "--beside", metavar="RUN", help="A second run, drawn to the right of the first."),
    into: Path = typer.Option(None, "--into", help="File to write; else report.html in the run's directory."),
    as_png: bool = typer.Option(False, "--png", help="The picture as report.png beside it too, by a Chromium."),
    runs: Path = typer.Option(Path("runs"), "--runs", help="Directory of the runs' records."),
) -> None:
    """Draw a stored run: one file, report.html, that needs no network."""
    if as_png and beside is not None:
        raise Refused("--png draws one run: leave --beside out")
    if as_png:
        png.chromium()
    records = [_found(name, runs) for name in (run, beside) if name is not None]
    drawn = [_drawn(record) for record in records]
    path = into or records[0].path / (page.NAME if beside is None else page.BESIDE)
    try:
        page.write(drawn, path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}; choose another file (--into)") from None
    say(f"report: {path}")
    if as_png:
        picture = path.with_suffix(".png")
        png.write(drawn[0], picture)
        say(f"picture: {picture}")


def _found(name: str, runs: Path) -> Record:
    """By its path, or by its name. Raises Refused."""
    for path in (Path(name), runs / name):
        if path.exists():
            return Record.at(path)
    raise Refused(f"{name} is no record of a run: expected a directory, or a name under {runs}")


def _drawn(record: Record) -> page.Drawn:
    try:
        return page.draw(record)
    except HistoryError as error:
        raise Refused(str(error)) from None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        what = f"{record.path} cannot be drawn, a field is not what it should be: {error!r}"
        raise Refused(what[:300]) from None
