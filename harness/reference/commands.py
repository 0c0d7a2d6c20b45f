"""The command line: every command and what its `--help` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer

from harness.cli import app
from harness.reference.markdown import block, plain, table

WIDTH: Final = 100
"""Columns of the help that is shown."""


def page() -> str:
    found = list(every())
    rows = [(f"[{path}](#{_anchor(path)})", plain(_first(command))) for path, command, _ in found[1:]]
    parts = [
        "# Commands\n",
        "Made out of the code when these pages are built: what `--help` prints, command by command. Durations are "
        "`500ms`, `5s`, `2m`; a number alone is seconds.\n",
        table(("command", "what it does"), rows),
        *(f"## {path}\n\n{block(shown)}" for path, _, shown in found),
    ]
    return "\n".join(parts)


def every() -> Iterator[tuple[str, Any, str]]:
    """Each command as it is typed, groups and the program itself included; itself; its help."""
    yield from _walk(typer.main.get_command(app), "mongofault", None)


def _walk(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any, str]]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield context.command_path, command, command.get_help(context)
    for each, below in getattr(command, "commands", {}).items():
        yield from _walk(below, each, context)


def _first(command: Any) -> str:
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


def options(command: Any) -> dict[str, str]:
    """Every spelling of each option of a command, and its help."""
    return {name: one.help or "" for one in command.params for name in (*one.opts, *one.secondary_opts)}
