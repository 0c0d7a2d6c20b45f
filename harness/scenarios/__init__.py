"""Scenarios, one file each: a question, what is set up, loaded, broken and expected. Found by name."""

from __future__ import annotations

from harness.scenarios.base import Scenario
from harness.scenarios.chaos import Chaos
from harness.scenarios.retry_overlap import RetryOverlap
from harness.scenarios.stale_shard import StaleShard
from harness.scenarios.update_lookup_stall import UpdateLookupStall

_ALL: tuple[type[Scenario], ...] = (UpdateLookupStall, Chaos, RetryOverlap, StaleShard)
SCENARIOS: dict[str, type[Scenario]] = {scenario.name: scenario for scenario in _ALL}


def questions() -> dict[str, str]:
    """Each scenario's name and the question it answers."""
    return {name: scenario.question for name, scenario in SCENARIOS.items()}
