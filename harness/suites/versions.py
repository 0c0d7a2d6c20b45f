"""update-lookup-stall on one server version after the other, each run on a cluster of its own; a row for each.

What one run fails with ends that run, not the suite; a signal ends it, healed, and there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.binaries import where_is
from clusters.errors import Refused
from clusters.releases.catalogue import RELEASES
from harness import exits
from harness.history import Event
from harness.scenarios.parameters import build
from harness.scenarios.update_lookup_stall import StallParameters, UpdateLookupStall
from harness.suites.running import carried_out

VERSIONS: Final = tuple(one.version for one in RELEASES if not one.raw_wire_only)


@dataclass(frozen=True, slots=True)
class Row:
    """What one run came to. `images`: updates delivered with their post-image while the fault was held."""

    version: str
    git_version: str
    router: str
    lookup: str
    outcome: str
    streams: int
    longest_getmore: float | None
    """Seconds; of all getMores that a stalled stream waited in."""
    images: int
    verdict: str
    headline: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Compared:
    """All rows, and how each was asked: the options of the scenario that were given."""

    rows: Sequence[Row]
    parameters: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        codes = {one.exit_code for one in self.rows}
        return next((code for code in (exits.NOT_AS_EXPECTED, exits.UNKNOWN) if code in codes), exits.AS_EXPECTED)


def check(versions: Sequence[str]) -> None:
    """Raises Refused naming what has to be installed first."""
    missing = [one for one in versions if where_is(one) is None]
    if missing:
        raise Refused(f"not installed here: {', '.join(missing)}; mongofault binaries install {' '.join(missing)}")


async def compare(
    runs: Path, told: Callable[[str], None], versions: Sequence[str], given: Mapping[str, Any]
) -> Compared:
    """`given`: options of `update-lookup-stall`. `told` a line for each run. Raises Refused, Interrupted."""
    check(versions)
    scenarios = [UpdateLookupStall(build(StallParameters, {**given, "server_version": one})) for one in versions]
    rows = []
    for count, (version, scenario) in enumerate(zip(versions, scenarios, strict=True), 1):
        result, events = await carried_out(scenario, runs)
        rows.append(row(result.document, result.headline, result.exit_code, events))
        told(f"{count}/{len(versions)} {version}: {result.headline}")
    return Compared(rows, given)


def row(document: Mapping[str, Any], headline: str, exit_code: int, events: Iterable[Event]) -> Row:
    """Of a result and its history."""
    server = document["server"]
    waited = [one["getmore"]["seconds"] for one in document["streams"] if one.get("getmore")]
    return Row(
        version=server["version"],
        git_version=server["git_version"],
        router=server["router"],
        lookup=server["lookup"],
        outcome=document["outcome"],
        streams=sum(document["counts"].values()),
        longest_getmore=max(waited, default=None),
        images=_images(events),
        verdict=document["verdict"],
        headline=headline,
        exit_code=exit_code,
    )


def _images(events: Iterable[Event]) -> int:
    count, holding = 0, False
    for event in events:
        if event.kind == "phase":
            holding = event["name"] == "hold"
        elif holding and event.kind == "stream.event" and event["op"] == "update":
            count += bool(event.get("image"))
    return count
