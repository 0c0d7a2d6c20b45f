"""Scenarios: the question of each, and its parameters."""

from __future__ import annotations

import sys
from typing import Any

from pydantic_core import PydanticUndefined

from harness.commands.options import metavar
from harness.reference.markdown import code, plain, table
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Scenario
from harness.scenarios.parameters import option_name


def page() -> str:
    parts = [
        "# Scenarios\n",
        "Made out of the code. A scenario is a question that is asked of a real cluster: `mongofault run SCENARIO`, "
        "and `mongofault chaos` for the one of that name. Its parameters are options of the command, keys of "
        "the file of `--config` (without the dashes), and `parameters` in `result.json`.\n",
        *(_scenario(one) for one in SCENARIOS.values()),
    ]
    return "\n".join(parts)


def _scenario(scenario: type[Scenario]) -> str:
    rows = [_row(name, info) for name, info in scenario.model.model_fields.items()]
    return "\n".join(
        (
            f"## {scenario.name}\n",
            f"**{plain(scenario.question)}**\n",
            plain(_explained(scenario)) + "\n",
            table(("parameter", "value", "default", "what it is"), rows),
        )
    )


def _explained(scenario: type[Scenario]) -> str:
    """What the module says beyond its first line."""
    return (sys.modules[scenario.__module__].__doc__ or "").partition("\n")[2].strip()


def _row(name: str, info: Any) -> tuple[str, str, str, str]:
    taken = "" if info.annotation is bool else code(metavar(info))
    return code(option_name(name)), taken, _default(info), plain(str(info.description))


def _default(info: Any) -> str:
    default = info.default
    if default is PydanticUndefined or default is None:
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return code(f"{default:g}s" if metavar(info) == "DURATION" else str(default))
