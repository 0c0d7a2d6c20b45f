"""stale-shard in every case that there is, each run on a cluster of its own; a row for each.

What one run fails with ends that run, not the suite; a signal ends it, healed, and there is no table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import exits
from harness.checkers import case as case_checker
from harness.checkers import isolation
from harness.scenarios.parameters import build
from harness.scenarios.stale_cases import FIXED
from harness.scenarios.stale_shard import StaleParameters, StaleShard
from harness.suites.running import carried_out

RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "split": {},
    "split-frozen-3": {"hold_by": "freeze-config", "hold": "3s"},
    "split-frozen-12": {"hold_by": "freeze-config", "hold": "12s"},
    "split-frozen-45": {"hold_by": "freeze-config", "hold": "45s"},
    "split-killed-3": {"hold_by": "kill-config", "hold": "3s"},
    "split-killed-25": {"hold_by": "kill-config", "hold": "25s"},
    "split-fail-command": {"hold_by": "fail-command", "hold": "2s"},
    "move": {"via": "move"},
    "move-frozen": {"via": "move", "hold_by": "freeze-config", "hold": "3s"},
    "move-fail-command": {"via": "move", "hold_by": "fail-command", "hold": "2s"},
    **{name: {"case": name} for name in FIXED},
}
"""By name. What is not said is the scenario's default."""


@dataclass(frozen=True, slots=True)
class Through:
    """What one router did: `pending` at the release; `codes` of the operations that failed; `counters` by how far they
    went; the slowest of those that did not wait, in seconds."""

    setting: str
    outcome: str
    pending: Sequence[str]
    waited: Sequence[str]
    codes: Mapping[str, int | None]
    counters: Mapping[str, int | None]
    slowest_spared: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """What one run came to. `about`: how the routers became stale."""

    name: str
    about: str
    parameters: Mapping[str, Any]
    routers: Sequence[Through]
    verdict: str
    headline: str
    exit_code: int
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Told:
    """All rows, and the server that they are of."""

    rows: Sequence[Row]
    server: Mapping[str, Any]
    seed: int

    @property
    def exit_code(self) -> int:
        codes = {one.exit_code for one in self.rows}
        return next((code for code in (exits.NOT_AS_EXPECTED, exits.UNKNOWN) if code in codes), exits.AS_EXPECTED)


async def ask(runs: Path, told: Callable[[str], None], names: Sequence[str], given: Mapping[str, Any]) -> Told:
    """The runs of these names; `given` is said to all of them. `told` a line for each. Raises Refused, Interrupted."""
    scenarios = {name: StaleShard(build(StaleParameters, {**RUNS[name], **given})) for name in names}
    rows: list[Row] = []
    server: Mapping[str, Any] = {}
    for count, (name, scenario) in enumerate(scenarios.items(), 1):
        result, _events = await carried_out(scenario, runs)
        server = result.document["server"]
        rows.append(row(name, scenario.case.about, result.document, result.headline, result.exit_code))
        told(f"{count}/{len(names)} {name}: {result.headline}")
    return Told(rows, server, next(iter(scenarios.values())).parameters.seed)


def row(name: str, about: str, document: Mapping[str, Any], headline: str, exit_code: int) -> Row:
    """Of a result; without routers where it did not come so far."""
    found = {one["name"]: one["evidence"] for one in document["findings"]}
    counted = {one["router"]: one["counters"] for one in found.get(case_checker.NAME, {}).get("routers", ())}
    routers = [
        Through(
            setting=one["setting"],
            outcome=one["outcome"],
            pending=one["pending"],
            waited=[each["op"] for each in one["operations"] if each["waited"] and each["belongs"] != "probe"],
            codes={each["op"]: each["code"] for each in one["operations"] if each["outcome"] != "ok"},
            counters=counted.get(one["router"], {}),
            slowest_spared=one["slowest_spared"],
        )
        for one in found.get(isolation.NAME, {}).get("routers", ())
    ]
    return Row(name, about, RUNS[name], routers, document["verdict"], headline, exit_code, document["reasons"])
