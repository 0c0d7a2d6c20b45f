"""A scenario's question asked by a program of one's own, as `mongofault run` asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.errors import Refused
from harness.record import Record
from harness.report import page
from harness.report.live import Silent
from harness.result import Result
from harness.run import Run
from harness.scenarios import SCENARIOS
from harness.scenarios.parameters import build, named


async def run(scenario: str, *, runs: str | Path = "runs", **parameters: Any) -> Result:
    """One run of a scenario, with the parameters of its command: `await run("update-lookup-stall", hold="12s")`.

    Leaves the record, with its report, in a directory of its own within `runs`. Raises Refused where nothing was
    started; what goes wrong later is the result's verdict. A cancelled caller finds everything healed and removed.
    """
    kind = SCENARIOS.get(scenario)
    if kind is None:
        raise Refused(f"unknown scenario {scenario!r}: expected one of {', '.join(sorted(SCENARIOS))}")
    given = named(kind.model, parameters, f"run({scenario!r})")
    result = await Run(kind(build(kind.model, given)), Path(runs), Silent()).execute()
    page.leave(Record(Path(result.document["record"])), result)
    return result
