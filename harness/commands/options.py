"""A command out of a pydantic model: each field is an option, its description the help, the model the judge of values.

Options come in as the text that was typed; bounds and types are the model's alone, so that file, CLI and result agree.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, get_args, get_origin

import typer
from pydantic import BeforeValidator
from pydantic_core import PydanticUndefined

from harness.scenarios.parameters import Parameters, option_name, parse_seconds


def command(model: type[Parameters], body: Callable[[dict[str, Any]], None], doc: str, extra: dict[str, Any]) -> Any:
    """A function for typer whose options are the fields of `model` and then `extra` (name: typer.Option)."""

    def run(**given: Any) -> None:
        body(given)

    fields = [_parameter(name, info) for name, info in model.model_fields.items()]
    others = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
        for name, (annotation, option) in extra.items()
    ]
    run.__signature__ = inspect.Signature([*fields, *others])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in [*fields, *others]}
    run.__doc__ = doc
    return run


def _parameter(name: str, info: Any) -> inspect.Parameter:
    option = option_name(name)
    kind: Any = str
    if get_origin(info.annotation) is list:
        kind = list[str]
    elif info.annotation is bool:
        kind = bool
        option = f"{option}/--no-{option.removeprefix('--')}"
    default = typer.Option(None, option, help=_help(info), metavar=None if kind is bool else metavar(info))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _help(info: Any) -> str:
    default = info.default
    if default is PydanticUndefined or default is None:
        return str(info.description)
    shown = str(default)
    if isinstance(default, bool):
        shown = "yes" if default else "no"
    elif metavar(info) == "DURATION":
        shown = f"{default:g}s"
    return f"{info.description} [default: {shown}]"


def metavar(info: Any) -> str:
    """What a parameter takes: DURATION, N, one of some words."""
    annotation = info.annotation
    # Of an optional one the metadata stay with the type that is not None.
    metadata = [*info.metadata, *(each for one in get_args(annotation) for each in getattr(one, "__metadata__", ()))]
    if any(isinstance(one, BeforeValidator) and one.func is parse_seconds for one in metadata):
        return "DURATION"
    choices = [str(one) for one in get_args(annotation) if isinstance(one, str)]
    if choices:
        return "|".join(choices)
    plain = [one for one in get_args(annotation) if one is not types.NoneType] or [annotation]
    return {int: "N", float: "NUMBER", str: "TEXT"}.get(plain[0], "TEXT")
