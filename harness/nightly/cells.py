"""The cells of a plan: versions x scenarios x faults x drivers, each with the options of the run that it is.

Pure, but that it asks what scenarios, faults and drivers there are; of servers it knows the names alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from clusters.errors import Refused
from harness.nightly.plan import Fault, Plan, Scenario
from harness.scenarios import SCENARIOS
from harness.scenarios.parameters import Parameters, build, named, typed

NO_FAULT: Final = "-"
"""In the place of a fault, of a scenario that has faults of its own choosing (`chaos`)."""
THE_PLANS: Final[Mapping[str, str]] = {
    "server_version": "servers are the plan's 'versions'",
    "provider": "what the plan's 'versions' say brings the cluster up",
    "image": "images are the plan's 'versions'",
    "cluster": "every cell has a cluster of its own",
    "fault": "faults are the plan's 'faults', or the scenario's",
    "fault_option": "they are the 'options' of the fault",
    "driver": "drivers are the plan's 'drivers', or the scenario's",
    "expect": "what is expected is the plan's 'expect'",
}
"""Parameters of scenarios that a plan says elsewhere."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the night. `options` are those of `mongofault run SCENARIO`, without the server's."""

    name: str
    version: str
    scenario: str
    fault: str
    fault_options: tuple[str, ...]
    driver: str
    options: tuple[str, ...]
    limit: float
    """Seconds."""


def cells(
    plan: Plan, where: str, *, versions: Sequence[str] = (), only: Sequence[str] = (), seed: int | None = None
) -> list[Cell]:
    """The cells in the order in which they are run. `where` the plan is from.

    `versions` instead of the plan's; `only` the cells that fit one of these patterns. Raises Refused.
    """
    chosen = list(versions) or plan.versions
    seed = plan.seed if seed is None else seed
    every = [
        _cell(plan, where, version, scenario, fault, driver, seed)
        for version in dict.fromkeys([*chosen, *plan.versions])
        for scenario in plan.scenarios
        for fault in _faults(plan, where, scenario)
        for driver in scenario.drivers or plan.drivers
    ]
    names = [cell.name for cell in every]
    for name in names:
        if names.count(name) > 1:
            raise Refused(f"the plan {where}: two cells are called {name}; call one of them otherwise, with 'as: NAME'")
    for pattern in plan.expect:
        if not any(_fits(name, pattern) for name in names):
            raise Refused(f"the plan {where}: expect: no cell fits {pattern!r}; they are called as {names[0]}")
    of_night = [cell for cell in every if cell.version in chosen]
    for pattern in only:
        if not any(_fits(cell.name, pattern) for cell in of_night):
            raise Refused(f"--only {pattern}: no cell fits; they are called as {of_night[0].name}, see --dry-run")
    return [cell for cell in of_night if not only or any(_fits(cell.name, pattern) for pattern in only)]


def _fits(name: str, pattern: str) -> bool:
    """`*` stands for anything, `/` included; a name fits itself, whatever is in it."""
    return name == pattern or fnmatchcase(name, pattern)


def _faults(plan: Plan, where: str, scenario: Scenario) -> Sequence[Fault | None]:
    model = _model(scenario, where)
    if "fault" in model.model_fields:
        return scenario.faults or plan.faults
    if scenario.faults is not None:
        raise Refused(f"the plan {where}: {scenario.name} has no parameter 'fault': leave its faults out")
    return [None]


def _model(scenario: Scenario, where: str) -> type[Parameters]:
    if scenario.name not in SCENARIOS:
        raise Refused(f"the plan {where}: unknown scenario {scenario.name!r}; expected {', '.join(SCENARIOS)}")
    return SCENARIOS[scenario.name].model


def _cell(
    plan: Plan, where: str, version: str, scenario: Scenario, fault: Fault | None, driver: str, seed: int | None
) -> Cell:
    name = f"{version}/{scenario.label}/{fault.label if fault else NO_FAULT}/{driver}"
    model = _model(scenario, where)
    said = f"the plan {where}: {name}"
    given = named(model, scenario.parameters, said)
    for one, instead in THE_PLANS.items():
        if one in given:
            raise Refused(f"{said}: {one.replace('_', '-')} is no parameter here: {instead}")
    if seed is not None:
        given.setdefault("seed", seed)
    if fault is not None:
        given |= {"fault": fault.name, "fault_option": fault.options}
    given |= {"driver": driver, "expect": _expected(plan, name)}
    try:
        build(model, given)
    except Refused as error:
        raise Refused(f"{said}: {error}") from None
    return Cell(
        name=name,
        version=version,
        scenario=scenario.name,
        fault=fault.name if fault else NO_FAULT,
        fault_options=tuple(fault.options) if fault else (),
        driver=driver,
        options=tuple(typed(given)),
        limit=plan.limits.cell,
    )


def _expected(plan: Plan, name: str) -> list[str]:
    """Of several patterns that fit, the last one's."""
    fitting = [outcomes for pattern, outcomes in plan.expect.items() if _fits(name, pattern)]
    return fitting[-1] if fitting else []
