"""Which faults need a proxy before the nodes of a run's own cluster: of processes, and of containers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.scenarios.parameters import build
from harness.scenarios.update_lookup_stall import StallParameters, UpdateLookupStall


@pytest.mark.parametrize(
    ("fault", "options", "of_processes", "of_containers"),
    [
        ("none", [], False, False),
        ("freeze", [], False, False),
        ("swallow", [], True, True),
        ("blackhole", ["source=driver"], True, True),
        ("isolate-primary", [], True, True),
        ("partition", [], True, False),
        ("partition", ["way=in", "by=proxy"], True, True),
        ("partition", ["by=kernel"], False, False),
        ("bandwidth", [], True, False),
        ("latency", ["ms=10"], True, True),
        ("latency", ["by=kernel"], False, False),
    ],
)
def test_a_run_has_a_proxy_where_nothing_else_does_its_fault(
    fault: str, options: list[str], of_processes: bool, of_containers: bool
) -> None:
    given: dict[str, Any] = {"fault": fault, "fault_option": options}
    expected = {"local": of_processes, "compose": of_containers}
    found = {
        provider: UpdateLookupStall(build(StallParameters, {**given, "provider": provider})).proxied()
        for provider in expected
    }
    assert found == expected
