"""Pages of the reference, made out of the code when they are built: what the code knows is typed nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.reference import checkers, commands, faults, history, python, scenarios

PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": commands.page,
    "reference/scenarios.md": scenarios.page,
    "reference/faults.md": faults.page,
    "reference/checkers.md": checkers.page,
    "reference/history.md": history.page,
    "reference/python.md": python.page,
}
"""Path within the documentation, and what makes its Markdown."""
