"""The table of ported shell tests, jstests_port/README.md, against the modules that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PORT = Path(__file__).parent.parent / "jstests_port"
COLUMNS = 5
MODULES = sorted(PORT.glob("test_*.py"))


def rows() -> dict[str, list[str]]:
    """By upstream path."""
    _, _, table = (PORT / "README.md").read_text().partition("## What is ported")
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return {cells[0].strip("`"): cells for cells in found if cells[0].startswith("`jstests/")}


def test_every_module_has_its_row_and_every_row_its_module() -> None:
    modules = {Path(upstream).stem: upstream for upstream in rows()}
    assert sorted(modules) == [module.stem.removeprefix("test_") for module in MODULES]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_module_names_the_upstream_path_of_its_row_and_what_differs(module: Path) -> None:
    docstring = module.read_text().split('"""')[1]
    upstream = re.match(r"Upstream: (jstests/\S+\.js)\b", docstring)
    assert upstream is not None
    assert upstream[1] in rows()
    assert "Differs: " in docstring


@pytest.mark.parametrize(("upstream", "cells"), rows().items(), ids=lambda one: one if isinstance(one, str) else "")
def test_a_row_says_everything(upstream: str, cells: list[str]) -> None:
    assert len(cells) == COLUMNS
    assert all(cells)
