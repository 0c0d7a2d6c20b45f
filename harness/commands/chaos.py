"""`chaos`: the scenario of that name, with what it would do (`--dry-run`) and what a stored run did (`--replay`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from clusters import adopted, kept
from clusters.topology import Topology, sharded_cluster
from clusters.uri import Uri
from harness.commands import options, runs
from harness.interrupts import interruptible
from harness.output import as_json, say, table
from harness.record import Record
from harness.scenarios.chaos import Chaos, ChaosParameters
from harness.scenarios.parameters import OWN_SHAPE, build
from harness.schedule import Planned

EXTRA: dict[str, Any] = {
    **runs.EXTRA,
    "dry_run": (bool, typer.Option(False, "--dry-run", help="Print the schedule and break nothing.")),
}


def _body(given: dict[str, Any]) -> None:
    dry = given.pop("dry_run")
    uri = runs.located(given)
    if given["replay"] is not None:
        given = {**given, **_as_stored(Record.at(Path(given["replay"])), given)}
    if not dry:
        runs.execute(Chaos, given, uri)
    json = given["json"]
    parameters = build(
        ChaosParameters, {name: value for name, value in runs.chosen_of(given).items() if name not in EXTRA}
    )
    _show(parameters.seed, Chaos(parameters).schedule(_topology(parameters, uri)), json=json)


def _topology(parameters: ChaosParameters, uri: Uri | None) -> Topology:
    """Of the cluster that is meant: planned, written down, or, where it is adopted, as it is now."""
    name = parameters.cluster
    if name is None:
        return sharded_cluster(parameters.shards, parameters.members)
    if not kept.is_adopted(name):
        return kept.read(name).topology
    where = adopted.uri_of(adopted.read(name), uri)
    return asyncio.run(interruptible(adopted.load(name, where))).topology


def _as_stored(record: Record, given: dict[str, Any]) -> dict[str, Any]:
    """The options of the stored run that were not given anew."""
    stored, _schedule = record.chaos()
    asked = runs.chosen_of(given)
    # The image goes with whom it was for.
    shaped = OWN_SHAPE if asked.get("cluster") is not None else ("image",) if "provider" in asked else ()
    return {
        name: value
        for name, value in stored.items()
        if name in ChaosParameters.model_fields and name not in asked and name not in shaped and value not in (None, [])
    }


def _show(seed: int, schedule: Sequence[Planned], *, json: bool) -> None:
    if json:
        as_json({"seed": seed, "faults": [one.plain() for one in schedule]})
        return
    rows = [(one.number, f"{one.at:.1f} s", f"{one.hold:.1f} s", one.fault, one.on) for one in schedule]
    table(("", "at", "held for", "fault", "on"), rows)
    say(f"seed {seed}")


chaos = options.command(ChaosParameters, _body, Chaos.question, EXTRA)
