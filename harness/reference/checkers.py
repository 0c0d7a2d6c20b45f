"""Checkers: the guarantee that each examines, in its own sentence, and which runs it is asked of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness import checkers
from harness.reference.markdown import plain, table

ASKED: Final[dict[str, Sequence[Callable[..., Any]]]] = {
    "runs with change streams": checkers.EXAMINERS,
    "chaos": checkers.OF_WHAT_IS_LEFT,
    "runs with retrying consumers": checkers.OF_COPIES,
    "runs through stale routers": checkers.OF_ROUTING,
}


@dataclass(frozen=True, slots=True)
class Checker:
    """One guarantee: what its finding is called, its sentence, and what the module says of it."""

    name: str
    statement: str
    explained: str
    asked_of: tuple[str, ...]


def page() -> str:
    found = every()
    parts = [
        "# Checkers\n",
        "Made out of the code. A checker is a pure function from a history to a finding: `true`, `false`, or `unknown` "
        "where the history does not tell. Its sentence is the guarantee, and stands in the result. Fields of the "
        "evidence: [result.json](../result.md#findings).\n",
        table(
            ("finding", "guarantee", "asked of"),
            [(f"[{one.name}](#{one.name})", plain(one.statement), "; ".join(one.asked_of)) for one in found],
        ),
        *(f"## {one.name}\n\n**{plain(one.statement)}**\n\n{plain(one.explained)}\n" for one in found),
    ]
    return "\n".join(parts)


def every() -> list[Checker]:
    """All that any run is asked, in the order of the findings."""
    asked: dict[Callable[..., Any], tuple[str, ...]] = {}
    for of, functions in ASKED.items():
        for one in functions:
            asked[one] = (*asked.get(one, ()), of)
    return [_checker(one, of) for one, of in asked.items()]


def _checker(examine: Callable[..., Any], asked_of: tuple[str, ...]) -> Checker:
    """A module's first guarantee is its NAME and STATEMENT; that of a further function bears the function's name."""
    module = sys.modules[examine.__module__]
    first = examine.__name__ == "examine"
    name = module.NAME if first else getattr(module, examine.__name__.upper())
    statement = module.STATEMENT if first else getattr(module, f"{examine.__name__.upper()}_STATEMENT")
    words = [module.__doc__, examine.__doc__] if first else [examine.__doc__]
    return Checker(name, statement, "\n\n".join(_flush(one) for one in words if one), asked_of)


def _flush(words: str) -> str:
    return "\n".join(line.strip() for line in words.strip().splitlines())
