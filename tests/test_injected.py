"""Faults in a program of one's own: they act within a block, on what is ours, and a killed program is healed after."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mongofault
from aftermath import Place, healed_after_a_kill, kept_cluster, wait_for
from clusters.local import OwnCluster

pytestmark = pytest.mark.live

PROGRAM = """
import asyncio, mongofault

async def main():
    async with mongofault.hold("mine") as ground:
        async with mongofault.injected(ground, "freeze", "any", seed=1) as proofs:
            print("broken", len(proofs), flush=True)
            await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with kept_cluster(
        tmp_path_factory.mktemp("own"), "mine", "--replica-set", "--members", "1", gone_within=1.0
    ) as one:
        yield one


async def test_a_fault_acts_within_its_block_on_every_node_that_is_meant(replica_set: OwnCluster) -> None:
    async with mongofault.injected(replica_set, "freeze", "minority", seed=3) as proofs:
        (one,) = proofs
        assert [name for name, member in replica_set.members.items() if member.frozen()] == [
            name for name in replica_set.members if name in one.statement
        ]
    assert not any(member.frozen() for member in replica_set.members.values())
    await mongofault.recovered(replica_set)


async def test_it_is_healed_also_where_the_block_ends_badly_or_nothing_could_be_proven(replica_set: OwnCluster) -> None:
    with pytest.raises(ZeroDivisionError):
        async with mongofault.injected(replica_set, "freeze", "secondaries"):
            raise ZeroDivisionError
    assert not any(member.frozen() for member in replica_set.members.values())
    with pytest.raises(mongofault.Refused, match="no proxy stands before"):
        async with mongofault.injected(replica_set, "cut", "secondary"):
            raise AssertionError("nothing acts here")
    await mongofault.recovered(replica_set)


@pytest.mark.slow
def test_a_program_that_is_killed_leaves_nothing_of_its_faults_on_a_kept_cluster(place: Place) -> None:
    process = place.python(PROGRAM)
    wait_for(["broken 1"], process, 30)
    assert list(place.processes().values()).count("T") == 1
    refused = place.run("fault", "freeze", "--cluster", "mine", "--on", "any", "--hold", "1s")
    assert "'mine' is in use" in refused.stderr
    process.kill()
    process.communicate()
    healed_after_a_kill(place, "mine")
    assert "T" not in place.processes().values()
