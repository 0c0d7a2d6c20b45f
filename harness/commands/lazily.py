"""Commands whose modules are imported when they are called: `ls` does not wait for every scenario there is."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

COMMANDS: Final[Mapping[str, str]] = {
    "run": "runs:app",
    "chaos": "chaos:chaos",
    "nightly": "nightly:nightly",
    "check": "runs:check",
    "report": "report:report",
    "list": "tools:list_",
    "faults": "faults:list_faults",
    "fault": "faults:fault",
    "predict": "predict:predict",
    "up": "clusters:up",
    "status": "clusters:status",
    "exec": "clusters:exec_",
    "down": "clusters:down",
    "ls": "clusters:ls",
    "watch": "watch:watch",
    "attach": "attached:attach",
    "adopt": "attached:adopt",
    "release": "attached:release",
    "binaries": "binaries:app",
    "image": "containers:image",
    "compose": "containers:compose",
    "heal": "healing:heal",
    "doctor": "tools:doctor",
}
"""In the order of `--help`: the module within `harness.commands`, and the function or the group of commands in it."""

VERBATIM: Final = frozenset(("exec",))
"""Commands whose arguments are another program's, options and all."""


class Commands(Mapping[str, Any]):
    """All of them by name, each made out of its function when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, attribute = COMMANDS[name].partition(":")
            found = getattr(importlib.import_module(f"harness.commands.{module}"), attribute)
            self._made[name] = typer.main.get_group(found) if isinstance(found, typer.Typer) else _single(name, found)
            self._made[name].name = name
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _single(name: str, body: Callable[..., Any]) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, context_settings={"allow_interspersed_args": False} if name in VERBATIM else None)(body)
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """The group of all commands (`typer.Typer(cls=LazyGroup)`)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]  # it is read, never added to
