"""The plan of a night: a YAML file as a pydantic model. What is wrong in it is said in one line, with the file's line.

Only its own form is judged here; whether a scenario takes the parameters given to it, `cells.py` finds out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clusters.errors import Refused
from harness.scenarios.parameters import Seconds

UNKNOWN_KEY: Final = "extra_forbidden"


def _by_name(given: object) -> object:
    return {"name": given} if isinstance(given, str) else given


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


class Fault(_Part):
    """A fault, and what its cells are called."""

    name: str = Field(min_length=1, description="As `run --fault` has it; 'none' for cells without one.")
    options: list[str] = Field(default_factory=list, description="NAME=VALUE, as `run --fault-option` has them.")
    alias: str | None = Field(
        default=None, alias="as", min_length=1, description="What it is called in names of cells."
    )

    @property
    def label(self) -> str:
        return self.alias or ",".join((self.name, *self.options))


Faults = list[Annotated[Fault, BeforeValidator(_by_name)]]


class Scenario(_Part):
    """A scenario with its parameters, and the faults and drivers that it is asked with."""

    name: str = Field(min_length=1, description="As `mongofault list` has it.")
    alias: str | None = Field(
        default=None, alias="as", min_length=1, description="What it is called in names of cells."
    )
    parameters: dict[str, Any] = Field(default_factory=dict, description="As the options of `mongofault run`.")
    faults: Faults | None = Field(None, min_length=1, description="In the place of the plan's.")
    drivers: list[str] | None = Field(None, min_length=1, description="In the place of the plan's.")

    @property
    def label(self) -> str:
        return self.alias or self.name


class Limits(_Part):
    """Bounds in time, in seconds."""

    cell: Seconds = Field(
        default=300.0, gt=0, le=86_400, description="Longest time of one cell; then it is ended, and unknown."
    )
    all: Seconds = Field(
        default=3600.0, gt=0, le=86_400, description="Longest time of all; what is left then is not run."
    )


class Plan(_Part):
    """What is to be run."""

    versions: list[str] = Field(
        min_length=1, description="Servers: 6.0.5, embedded, path:/directory, or an image as mongo:8.0."
    )
    scenarios: list[Annotated[Scenario, BeforeValidator(_by_name)]] = Field(min_length=1)
    faults: Faults = Field(default_factory=lambda: [Fault(name="freeze")], min_length=1)
    drivers: list[str] = Field(default_factory=lambda: ["pymongo"], min_length=1)
    expect: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Acceptable outcomes by patterns of cells, in the place of the scenario's own; the last that fits.",
    )
    limits: Limits = Field(default_factory=lambda: Limits())
    seed: int | None = Field(None, description="Of every cell; else one is drawn for the night.")


def read(path: Path) -> Plan:
    """The plan in a file. Raises Refused: one line that names the file's line and what was expected there."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the plan {path}: {getattr(error, 'strerror', None) or 'expected text in UTF-8'}") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Plan:
    """The same of a text; `where` it is from."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_doubles(node, where)
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise Refused(f"the plan {where}: expected YAML; {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise Refused(f"the plan {where}: expected versions, scenarios and more, found {str(document)[:60]!r}")
    try:
        return Plan.model_validate(document)
    except ValidationError as error:
        raise Refused("; ".join(_sentence(one, node, where) for one in error.errors(include_url=False))) from None


def _sentence(error: Any, node: yaml.Node | None, where: str) -> str:
    path: Sequence[str | int] = error["loc"]
    at = f"{where}:{_line(node, path)}"
    name = _name(path)
    if error["type"] == UNKNOWN_KEY:
        known = [field.alias or name for name, field in _model(path[:-1]).model_fields.items()]
        return f"{at}: {name}: unknown key; expected one of {', '.join(known)}"
    if error["type"] == "missing":
        return f"{at}: {name} is missing"
    message = error["msg"].removeprefix("Value error, ")
    return f"{at}: {name}: {message[0].lower()}{message[1:]}, found {str(error['input'])[:60]!r}"


def _name(path: Sequence[str | int]) -> str:
    """`scenarios[0].name`."""
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).removeprefix(".")


def _model(path: Sequence[str | int]) -> type[BaseModel]:
    names = [one for one in path if isinstance(one, str)]
    if not names:
        return Plan
    models: dict[str, type[BaseModel]] = {"limits": Limits, "faults": Fault, "scenarios": Scenario}
    return models.get(names[-1], Plan)


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> int:
    """Where it stands, counted from 1; of what is missing, where it ought to."""
    line = node.start_mark.line if node is not None else 0
    for one in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == one), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(one, int) and one < len(node.value):
            node = node.value[one]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _refuse_doubles(node: yaml.Node | None, where: str) -> None:
    """YAML forbids a key that is there twice; its parser takes the last one, and says nothing."""
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            _refuse_doubles(one, where)
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key, value in node.value:
            if key.value in seen:
                raise Refused(f"{where}:{key.start_mark.line + 1}: {key.value}: the key is there twice")
            seen.add(key.value if isinstance(key.value, str) else id(key))
            _refuse_doubles(value, where)
