"""The random machine of tests/router_machine.py: a short run from a fixed seed, and `make soak`, which takes minutes.

MONGOFAULT_STATE_MACHINE_MINUTES makes it long; it prints the seed of each round, and MONGOFAULT_STATE_MACHINE_SEED does
one round again.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from clusters.local import LocalCluster
from router_machine import Machine

pytestmark = pytest.mark.live

MINUTES: Final = float(os.environ.get("MONGOFAULT_STATE_MACHINE_MINUTES", "0"))
SEED: Final = os.environ.get("MONGOFAULT_STATE_MACHINE_SEED")
SHORT: Final = settings(
    max_examples=3,
    stateful_step_count=30,
    deadline=None,
    database=None,
    # Shrinking a failure takes minutes of a real cluster; `make soak` does it.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
LONG: Final = settings(
    SHORT, max_examples=8, stateful_step_count=60, phases=(Phase.generate, Phase.shrink), verbosity=Verbosity.normal
)


def play(clusters: tuple[LocalCluster, LocalCluster], number: int, how: settings) -> None:
    """One round: the examples that follow from the seed `number`."""
    machine = seed(number)(type("SeededMachine", (Machine,), {"clusters": clusters}))
    try:
        run_state_machine_as_test(machine, settings=how)
    except BaseException as error:
        error.add_note(f"again, {how.max_examples} examples: make soak SEED={number}")
        raise


@pytest.mark.timeout(MINUTES * 60 + 900)
async def test_random_operations_end_as_on_a_replica_set(
    sharded: LocalCluster, replica_set: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters = (sharded, replica_set)
    if not MINUTES:
        await asyncio.to_thread(play, clusters, int(SEED or 1), SHORT)
        return
    end = time.monotonic() + MINUTES * 60
    while True:
        number = int(SEED) if SEED else random.SystemRandom().randrange(1_000_000)
        with capsys.disabled():
            print(f"\nstate machine: seed {number}", flush=True)
        await asyncio.to_thread(play, clusters, number, LONG)
        if SEED or time.monotonic() > end:
            return
