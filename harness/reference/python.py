"""The public names of `mongofault`, as the module itself says them."""

from __future__ import annotations

import inspect
from typing import Any

import mongofault
from harness.reference.markdown import code, plain, table


def page() -> str:
    named = {name: getattr(mongofault, name) for name in sorted(mongofault.__all__, key=str.lower)}
    broken = {name: one for name, one in named.items() if isinstance(one, mongofault.Breaking)}
    parts = [
        "# Names of `mongofault`\n",
        "Made out of the code. How they go together: [from Python](../python.md).\n",
        table(
            ("name", "what it is"),
            [(code(_called(name, one)), plain(_first(one))) for name, one in named.items() if name not in broken],
        ),
        "## Faults\n",
        "Called with a selection, and the options of the [fault](faults.md) by name.\n",
        table(("name", "what it does"), [(code(name), plain(_first(one))) for name, one in broken.items()]),
    ]
    return "\n".join(parts)


def _called(name: str, one: Any) -> str:
    if not inspect.isfunction(one):
        return name
    given = inspect.signature(one).parameters.values()
    return f"{name}({', '.join(f'{each.name}=' if each.kind is each.KEYWORD_ONLY else each.name for each in given)})"


def _first(one: Any) -> str:
    """The first paragraph of its docstring."""
    if isinstance(one, str):
        return "the version of mongofault"
    return " ".join((one.__doc__ or "").split("\n\n")[0].split())
