"""Faults: what each does and is aimed at, its options, how it is proven and healed."""

from __future__ import annotations

import sys
from typing import Any

from pydantic_core import PydanticUndefined

import faults
from faults.options import accepted
from harness.reference.markdown import code, plain, table


def page() -> str:
    names = faults.names()
    parts = [
        "# Faults\n",
        "Made out of the code. `mongofault fault NAME --on SPEC` injects one by hand, `--fault NAME` is that of a run, "
        "`--fault-option NAME=VALUE` sets an option. A fault that could not be proven was not injected: the verdict is "
        "then `unknown`.\n",
        table(
            ("fault", "what it does", "aimed at"),
            [(f"[{one}](#{one})", plain(faults.summary(one)), plain(faults.by_name(one).needs)) for one in names],
        ),
        *(_fault(one) for one in names),
    ]
    return "\n".join(parts)


def _fault(name: str) -> str:
    kind = faults.by_name(name)
    summary, _, rest = (sys.modules[kind.__module__].__doc__ or "").partition("\n")
    facts = [
        ("aimed at", plain(kind.needs)),
        ("proven by", plain(kind.proven_by)),
        ("healed by", plain(kind.healed_by)),
        ("its target goes on answering hello and heartbeats", "yes" if kind.spares_health else "no"),
        ("where a scenario breaks one and nothing else is said", code(kind.aim)),
    ]
    return "\n".join(
        (
            f"## {name}\n",
            f"**{plain(_sentence(summary))}**\n",
            plain(rest.strip()) + "\n",
            table(("", ""), facts),
            _options(kind.options),
        )
    )


def _sentence(summary: str) -> str:
    does = summary.partition(": ")[2]
    return does[:1].upper() + does[1:]


def _options(model: Any) -> str:
    if not model.model_fields:
        return "It has no options.\n"
    rows = [
        (code(name), code(accepted(field)), _default(field), plain(str(field.description or "")))
        for name, field in model.model_fields.items()
    ]
    return table(("option", "value", "default", "what it is"), rows)


def _default(field: Any) -> str:
    if field.default is PydanticUndefined:
        return "needed" if field.is_required() else ""
    if field.default in (None, "", ()):
        return ""
    if isinstance(field.default, bool):
        return code("yes" if field.default else "no")
    return code(",".join(field.default) if isinstance(field.default, tuple) else str(field.default))
