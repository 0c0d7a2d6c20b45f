"""Parameters of scenarios: one pydantic model each, which is the CLI's options, the YAML file and the JSON result.

Only types and bounds; what a parameter does is the scenario's affair.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from clusters.errors import Refused
from clusters.providers import Provider
from clusters.quirks import of_version
from clusters.topology import MAX_VOTERS
from harness.drivers.clients import Driver, check_driver, parse_driver_options
from harness.measures import seconds


def parse_seconds(given: object) -> object:
    """`12s`, `250ms`, `2m` or a plain number of seconds, as seconds."""
    return seconds(given) if isinstance(given, str) else given


Seconds = Annotated[float, BeforeValidator(parse_seconds)]


def _with_drivers(version: str) -> str:
    """A version that drivers talk to; whether it is here, or can be, is seen when the cluster is settled."""
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", version) is None:
        raise ValueError(f"expected a version as 6.0.5, found {version!r} (mongofault binaries list)")
    if not of_version(version).drivers:
        raise ValueError(f"drivers refuse mongod {version}, it is for raw wire only (mongofault binaries list)")
    return version


class Parameters(BaseModel):
    """What every scenario takes. Durations in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cluster: str | None = Field(
        None, description="A cluster of 'mongofault up' or 'adopt' to run on; else one of its own."
    )
    members: int = Field(3, ge=1, le=200, description="Members of each shard; those past the seventh have no vote.")
    shards: int = Field(
        default_factory=lambda given: 1 if given.get("members", 0) > MAX_VOTERS else 2,
        ge=1,
        le=50,
        description="Shards of the run's own cluster [default: 2; 1 where a shard has more than seven members].",
    )
    server_version: Annotated[str, AfterValidator(_with_drivers)] | None = Field(
        None, description="A version of 'mongofault binaries' for the run's own cluster; else the servers there are."
    )
    provider: Provider = Field(
        "local",
        description="Who brings the run's own cluster up: processes of this machine, containers by Compose, or "
        "containers where they can be had.",
    )
    image: str | None = Field(
        None, description="Image of the containers; else MONGO_IMAGE, that of 'mongofault image build', or mongo:8.0."
    )
    driver: Annotated[Driver, AfterValidator(check_driver)] = Field(
        "pymongo", description="Driver of all clients of the load."
    )
    driver_option: list[str] = Field(
        default_factory=list,
        description="NAME=VALUE for the clients of streams or consumers, e.g. socketTimeoutMS=3000 (may be repeated).",
    )
    seed: int = Field(
        default_factory=lambda: secrets.randbelow(1 << 31), description="Seed of all random choices; else drawn."
    )
    expect: list[str] = Field(
        default_factory=list, description="Acceptable outcome (may be repeated), instead of the scenario's own."
    )

    @model_validator(mode="after")
    def _driver_options(self) -> Self:
        parse_driver_options(self.driver_option)
        return self


class StreamParameters(Parameters):
    """What a scenario with change streams takes."""

    threshold: Seconds = Field(3.0, ge=0.5, le=600, description="A stream owing events for longer is silent.")
    streams: int = Field(8, ge=1, le=10_000, description="Change streams, each with a client of its own.")
    rate: float = Field(20.0, gt=0, le=10_000, description="Writes per second, over all shards.")
    full_document: Literal["updateLookup", "default"] = Field(
        "updateLookup", description="'default' asks for no post-image: then nothing is looked up."
    )
    traffic: bool = Field(True, description="Without traffic nothing is written at all: streams are quiet.")


class FaultParameters(StreamParameters):
    """What a scenario takes that holds one fault."""

    fault: str = Field("freeze", description="Fault to inject; 'none' for a run without one.")
    fault_option: list[str] = Field(
        default_factory=list, description="NAME=VALUE for the fault, e.g. how=fsyncLock (may be repeated)."
    )
    release: Literal["heal", "kill-member", "kill-op"] = Field(
        "heal",
        description="What ends the hold: the fault is healed; or first the member that was broken is killed, or the "
        "operations that wait for it are, and the fault is healed when the streams move again.",
    )
    hold: Seconds = Field(12.0, gt=0, le=7200, description="How long the fault is held.")


OWN_SHAPE = ("shards", "members", "server_version", "provider", "image")


def named(model: type[Parameters], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parameters out of a file, called as its options are, or as its fields. Raises Refused, saying `where`."""
    known = [name.replace("_", "-") for name in model.model_fields]
    for name in given:
        if name.replace("_", "-") not in known:
            raise Refused(f"{where}: unknown parameter {name!r}; expected {', '.join(known)}")
    return {name.replace("-", "_"): value for name, value in given.items()}


def build(model: type[Parameters], given: Mapping[str, Any]) -> Any:
    """The model from options as given. Raises Refused: one line, each option with the rule and what was found."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in OWN_SHAPE:
        if given.get("cluster") is not None and name in given:
            raise Refused(f"{option_name(name)} shapes a cluster of the run's own; with --cluster leave it out")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise Refused("; ".join(_sentence(one) for one in error.errors(include_url=False))) from None


def option_name(field: str) -> str:
    """The CLI's option of a field."""
    return "--" + field.replace("_", "-")


def typed(given: Mapping[str, Any]) -> list[str]:
    """Parameters as they are typed on the command line."""
    words: list[str] = []
    for name, value in given.items():
        option = option_name(name)
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option.removeprefix('--')}")
        elif isinstance(value, list):
            words += [word for one in value for word in (option, str(one))]
        elif value is not None:
            words += [option, str(value)]
    return words


def _sentence(error: Any) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return str(message)
    return f"{option_name(str(error['loc'][0]))} {error['input']!s}: {message[0].lower()}{message[1:]}"
