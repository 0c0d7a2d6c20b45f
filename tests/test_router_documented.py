"""docs/router.md names every command the stand-in router does and every one it refuses by name: no more, no less."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from clusters.router import refusals
from clusters.router.dispatch import Dispatch
from clusters.router.settings import SETTINGS

PAGE = (Path(__file__).parent.parent / "docs/router.md").read_text()
OUTSIDE_THE_TABLE = {"hello", "isMaster", "ismaster", "whatsmyuri"}
"""Answered by name before the table is looked at."""


def section(title: str) -> set[str]:
    """Every `command` in the tables of a section."""
    body = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line for line in body.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])}


def done() -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Dispatch.__init__)))
    tables = [node.value for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    keys = [key for table in tables if isinstance(table, ast.Dict) for key in table.keys]
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)} | SETTINGS | OUTSIDE_THE_TABLE


def test_the_commands_done_are_those_of_the_page() -> None:
    assert section("Commands") == done()


def test_the_commands_refused_by_name_are_those_of_the_page() -> None:
    named = refusals._AUTHENTICATION | refusals._TRANSACTIONS | refusals._OF_MEMBERS | refusals._NOT_BUILT
    assert section("Commands refused") == named


@pytest.mark.parametrize("command", sorted(section("Commands refused")))
def test_a_command_refused_is_refused_in_one_line_that_names_the_router(command: str) -> None:
    error = refusals.unknown(command)
    assert "the stand-in router" in str(error)
    assert "\n" not in str(error)
    assert error.code != 59, "only what no server knows is not found"
