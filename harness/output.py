"""How the command line speaks: tables for people, JSON for programs (`--json`), nothing but the verdict (`--quiet`)."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Final, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clusters.uri import redacted

PIPE_WIDTH: Final = 240
"""Columns where there is no terminal: tables are read by programs or pasted, and must not be cut at 80."""


class _Forgiving(io.TextIOBase):
    """A standard stream whose reader may go away, or whose disk may fill: nobody looking on ends no work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.gone = False

    @property
    def _stream(self) -> TextIO | None:
        return cast("TextIO | None", getattr(sys, self._name))

    def write(self, text: str) -> int:
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError(f"{self._name} is closed")
        return self._stream.fileno()

    def _try(self, act: Callable[[TextIO], object]) -> None:
        stream = self._stream
        if stream is None:
            return
        try:
            act(stream)
        except OSError:
            self.gone = True
            # Python flushes it once more at exit, and would end with 120.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _console(name: str) -> Console:
    stream = _Forgiving(name)
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=cast("IO[str]", stream), highlight=False, soft_wrap=True, width=width)


out = _console("stdout")
err = _console("stderr")


def nobody_reads() -> bool:
    """Whether the reader of standard output has gone away, which is seen at the first line that it does not read."""
    return cast(_Forgiving, out.file).gone


def say(line: str) -> None:
    out.print(Text(line))


def complain(line: str) -> None:
    """One line to standard error, whatever is in it; but for secrets, which an argument that is quoted may hold."""
    err.print(Text("mongofault: " + redacted(" ".join(str(line).split()))))


def as_json(document: Any) -> None:
    out.out(json.dumps(document, indent=2, default=str), highlight=False)


def as_json_line(document: Any) -> None:
    """One of many, for programs that read them as they come."""
    out.out(json.dumps(document, default=str), highlight=False)


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
