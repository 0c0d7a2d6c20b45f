"""Options of faults: one pydantic model each, given as NAME=VALUE. What an option does is its fault's affair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from clusters.errors import Refused


class Options(BaseModel):
    """Of a fault that has none; the others' are made from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse(fault: str, model: type[Options], given: Sequence[str]) -> Any:
    """The options of a fault from `NAME=VALUE` strings. Raises Refused: one line that says what it takes."""
    values = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name not in model.model_fields:
            raise Refused(f"--fault-option {one}: {fault} takes {describe(model) or 'no options'}")
        values[name] = value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        found = f"{first['loc'][0]}={first['input']}"
        raise Refused(f"--fault-option {found}: {fault} takes {describe(model)}") from None


def describe(model: type[Options]) -> str:
    """`how=rsSyncApplyStop|fsyncLock` and the like, the default first; empty where there is no option."""
    return ", ".join(f"{name}={_values(field)}" for name, field in model.model_fields.items())


def _values(field: Any) -> str:
    choices = [one for one in get_args(field.annotation) if isinstance(one, str)]
    ordered = sorted(choices, key=lambda one: one != field.default)
    return "|".join(ordered) or getattr(field.annotation, "__name__", "VALUE").upper()
