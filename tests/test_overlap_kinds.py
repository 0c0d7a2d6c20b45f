"""Every kind of write, executed three times against a server that holds it: what was counted, and what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.local import OwnCluster
from harness.drivers.effects import record_effects
from harness.drivers.kinds import KINDS, WriteOptions
from harness.scenarios.overlap_faults import ENGINE_HANGS
from overlap_parts import WRITE, Overlapping, counting, held, overlapping

pytestmark = [pytest.mark.live, pytest.mark.slow]

MEMBER = "rs0-0"
EXECUTIONS = 3


@pytest.fixture
async def observed(proxied: OwnCluster, tmp_path: Path) -> AsyncIterator[Overlapping]:
    async with overlapping(proxied, tmp_path) as one:
        yield one


@pytest.mark.parametrize("name", KINDS)
async def test_the_collection_is_left_as_the_copies_of_a_write_leave_it(observed: Overlapping, name: str) -> None:
    kind = KINDS[name]
    point = ENGINE_HANGS[kind.command]

    async def send(collection: Any, number: int, _comment: dict[str, Any]) -> Any:
        await kind.execute(collection, WRITE, number, WriteOptions(observed.run, write_concern=1))

    prepared = kind.preparation(WRITE)
    if prepared:
        await observed.client[observed.database][observed.name].insert_many(prepared)
    holding = held([observed.cluster.members[MEMBER]], point, **observed.conditions(point))
    async with counting(observed), holding:
        await observed.execute(WRITE, EXECUTIONS, send, acknowledged=kind.acknowledged)
    await record_effects(observed.recorder, observed.cluster.uri, observed.namespace, observed.run)
    findings = observed.findings(name)
    assert {one.name: one.valid for one in findings.values()} == dict.fromkeys(
        ("overlap", "counts", "effects"), True
    ), {one.name: one.evidence for one in findings.values()}
    (row,) = findings["overlap"].evidence["writes"]
    resends = EXECUTIONS if kind.retryable_by_the_driver else 0
    # Without acknowledgement all go over one connection, where the server takes one after the other.
    at_once = EXECUTIONS if kind.acknowledged else 1
    assert (row["executions"], row["sends"], row["copies_at_once"]) == (EXECUTIONS, EXECUTIONS + resends, at_once)
    if not kind.idempotent:
        assert findings["effects"].evidence["doubled"] == EXECUTIONS - 1
