"""Parameters of scenarios: one pydantic model each, which is the CLI's options, the YAML file and the JSON result.

Only types and bounds; what a parameter does is the scenario's affair.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clusters.errors import Refused

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


def parse_seconds(given: object) -> object:
    """`12s`, `250ms`, `2m` or a plain number of seconds, as seconds."""
    if isinstance(given, str):
        match = _DURATION.fullmatch(given.strip())
        if match is None:
            raise ValueError("expected a duration such as 12s, 500ms or 2m")
        return float(match["number"]) * _UNITS[match["unit"]]
    return given


Seconds = Annotated[float, BeforeValidator(parse_seconds)]


class Parameters(BaseModel):
    """What every scenario takes. Durations in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cluster: str | None = Field(None, description="A cluster made by 'mongofault up' to run on; else one of its own.")
    shards: int = Field(2, ge=1, le=50, description="Shards of the run's own cluster.")
    members: int = Field(3, ge=1, le=200, description="Members of each shard.")
    seed: int = Field(
        default_factory=lambda: secrets.randbelow(1 << 31), description="Seed of all random choices; else drawn."
    )
    expect: list[str] = Field(
        default_factory=list, description="Acceptable outcome (may be repeated), instead of the scenario's own."
    )


def build(model: type[Parameters], given: Mapping[str, Any]) -> Any:
    """The model from options as given. Raises Refused: one line, each option with the rule and what was found."""
    try:
        return model.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise Refused("; ".join(_sentence(one) for one in error.errors(include_url=False))) from None


def option_name(field: str, info: Any) -> str:
    """The CLI's option of a field: `driver_options`, a list, is `--driver-option`, once for each."""
    extra = info.json_schema_extra if info is not None and isinstance(info.json_schema_extra, dict) else {}
    return "--" + str(extra.get("option", field)).replace("_", "-")


def _sentence(error: Any) -> str:
    where = "--" + "-".join(str(part) for part in error["loc"][:1]).replace("_", "-")
    message = error["msg"].removeprefix("Value error, ")
    return f"{where} {error['input']!s}: {message[0].lower()}{message[1:]}" if error["loc"] else message
