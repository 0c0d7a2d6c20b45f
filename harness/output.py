"""How the command line speaks: tables for people, JSON for programs (`--json`), nothing but the verdict (`--quiet`)."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 240
"""Columns where there is no terminal: tables are read by programs or pasted, and must not be cut at 80."""


def _console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=width)


out = _console()
err = _console(stderr=True)


def say(line: str) -> None:
    out.print(Text(line))


def complain(line: str) -> None:
    """One line to standard error, whatever is in it."""
    err.print(Text("mongofault: " + " ".join(str(line).split())))


def as_json(document: Any) -> None:
    print(json.dumps(document, indent=2, default=str))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    shown = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        shown.add_row(*(Text(str(cell)) for cell in row))
    print_table(out, shown)


def print_table(console: Console, shown: Table) -> None:
    """At its own width, however narrow the terminal: cut columns would be of no use to whoever pastes them."""
    wide = Console(file=io.StringIO(), width=PIPE_WIDTH, highlight=False, force_terminal=console.is_terminal)
    wide.print(shown, soft_wrap=True)
    for line in wide.file.getvalue().splitlines():  # type: ignore[attr-defined]
        console.out(line.rstrip(), highlight=False)
