"""Options of faults: one pydantic model each, given as NAME=VALUE. What an option does is its fault's affair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from bson import json_util
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from clusters.errors import Refused


class Options(BaseModel):
    """Of a fault that has none; the others' are made from it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _split(given: object) -> object:
    return tuple(one.strip() for one in given.split(",") if one.strip()) if isinstance(given, str) else given


def _tags(given: object) -> object:
    if not isinstance(given, str):
        return given
    pairs = [one.partition("=") for one in given.split(",") if one.strip()]
    if not all(key.strip() and equals for key, equals, _value in pairs):
        raise ValueError("expected K=V, or several with commas between them")
    return {key.strip(): value.strip() for key, _equals, value in pairs}


def _document(given: object) -> object:
    """Extended JSON (v2, relaxed or canonical)."""
    if not isinstance(given, str):
        return given
    found = json_util.loads(given)
    if not isinstance(found, Mapping):
        raise ValueError("expected a document in extended JSON")
    return found


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several, as text with commas between them."""
Tags = Annotated[dict[str, str], BeforeValidator(_tags)]
"""Tags of members, as K=V with commas between them."""
Document = Annotated[dict[str, Any], BeforeValidator(_document)]
"""A document, as extended JSON."""

_SHAPES = {_split: "A,B,..", _tags: "K=V,..", _document: "JSON"}


Given = Sequence[str] | Mapping[str, Any]
"""Options as `NAME=VALUE` strings, or by name."""


def written(given: Given) -> list[str]:
    """As `NAME=VALUE` strings, for those who read."""
    return [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else list(given)


def parse(fault: str, model: type[Options], given: Given) -> Any:
    """The options of a fault. Raises Refused: one line that says what it takes."""
    values: dict[str, Any] = {}
    pairs = given.items() if isinstance(given, Mapping) else (one.split("=", 1) for one in given)
    for one, (name, *value) in zip(written(given), pairs, strict=True):
        if not value or name not in model.model_fields:
            raise Refused(f"--fault-option {one}: {fault} takes {describe(model) or 'no options'}")
        (values[name],) = value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:
            # What options do not go together only the fault can say.
            raise Refused(f"--fault-option: {fault}: {first['msg'].removeprefix('Value error, ')}") from None
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise Refused(f"--fault-option {name}=..: {fault} needs it; it takes {describe(model)}") from None
        message = first["msg"].removeprefix("Value error, ")
        found = f"{name}={values.get(name)}: {message[0].lower()}{message[1:]}"
        raise Refused(f"--fault-option {found}; {fault} takes {describe(model)}") from None


def describe(model: type[Options]) -> str:
    """`how=rsSyncApplyStop|fsyncLock` and the like, the default first; empty where there is no option."""
    return ", ".join(f"{name}={accepted(field)}" for name, field in model.model_fields.items())


def accepted(field: Any) -> str:
    """The values that an option takes, in words; the default first where they are few."""
    for one in field.metadata:
        if isinstance(one, BeforeValidator) and one.func in _SHAPES:
            return _SHAPES[one.func]
    if nested := [one for one in get_args(field.annotation) if get_origin(one) is Annotated]:
        # Beside a document something simpler may be said.
        choices = [one for kind in get_args(field.annotation) for one in get_args(kind) if isinstance(one, str)]
        return "|".join([*choices, *(_SHAPES[get_args(one)[1].func] for one in nested)])
    kinds = [one for one in get_args(field.annotation) if one is not NoneType]
    choices = [one for one in kinds if isinstance(one, str)]
    ordered = sorted(choices, key=lambda one: one != field.default)
    plain = kinds[0] if kinds and not choices and get_origin(field.annotation) is not dict else field.annotation
    if plain is bool:
        ordered = ["yes", "no"] if field.default else ["no", "yes"]
    return "|".join(ordered) or getattr(plain, "__name__", "VALUE").upper()
