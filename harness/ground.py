"""What a run stands on: a cluster of its own, removed again afterwards; or a kept one, which is only healed.

Gives it together with the ledger that faults are written down in. Knows nothing of load, faults and phases.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from pymongo.errors import PyMongoError

from clusters import kept, local, ready
from clusters.cluster import ServerInfo
from clusters.errors import Refused
from clusters.guard import Guardian, Ledger
from clusters.local import LocalCluster
from clusters.topology import Topology
from harness.scenarios.base import Scenario


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on: a cluster, and the ledger that its faults are written down in."""

    cluster: LocalCluster
    ledger: Ledger
    guardian: Guardian


@asynccontextmanager
async def own_ground(topology: Topology, name: str, *, seed: int, down: Callable[[], None]) -> AsyncIterator[Ground]:
    """A cluster brought up for this run; `down` is called before it is taken down."""
    own = await local.bring_up(topology, name, seed=seed)
    try:
        yield Ground(own, own.ledger, own.guardian)
    finally:
        down()
        await own.down()


def kept_ground(
    kept_name: str, name: str, scenario: Scenario, started: Callable[[Topology, ServerInfo], None]
) -> AbstractAsyncContextManager[Ground]:
    """A kept cluster, held for this run alone; `started` is called once it is known to be ours and to suit.

    Raises Refused: in use, not ours, or the scenario says why it does not suit.
    """

    def suits(cluster: LocalCluster) -> None:
        unsuited = scenario.suits(cluster)
        if unsuited is not None:
            raise Refused(f"{scenario.name} on {cluster.name}: {unsuited}")
        started(cluster.topology, cluster.server)

    return held_ground(kept_name, name, suits)


@asynccontextmanager
async def held_ground(
    kept_name: str, name: str, suits: Callable[[LocalCluster], None] = lambda _cluster: None
) -> AsyncIterator[Ground]:
    """A kept cluster, held under `name`; `suits` is called once it is known to be ours, and may refuse it.

    Raises Refused: in use, or not ours.
    """
    held = kept.hold(kept_name)
    try:
        cluster = kept.load(kept_name)
        await _check_owned(cluster)
        suits(cluster)
        ledger, guardian = local.open_ledger(name, on=held)
        try:
            yield Ground(cluster, ledger, guardian)
        finally:
            await local.take_down(ledger, guardian)
    finally:
        held.release()


def processes(cluster: LocalCluster) -> dict[str, list[int]]:
    """The ids of all that runs on this machine for the run, by what it is."""
    router = cluster.router_process
    groups = {
        "members": [one.process.pid for one in cluster.members.values() if one.process is not None],
        "router": [router.process.pid] if router is not None and router.process is not None else [],
        "harness": [os.getpid()],
    }
    return {name: pids for name, pids in groups.items() if pids}


async def _check_owned(cluster: LocalCluster) -> None:
    """Raises Refused for a cluster without the harness's marker: it is somebody else's."""
    try:
        async with cluster.client(serverSelectionTimeoutMS=5_000, timeoutMS=10_000) as client:
            owner = await ready.owner_of(client)
    except PyMongoError:
        raise Refused(f"cluster {cluster.name!r} does not answer at {cluster.uri}: see mongofault status") from None
    if owner != cluster.name:
        raise Refused(
            f"the cluster at {cluster.uri} does not bear the marker of {cluster.name!r}: it is not ours to break"
        )
