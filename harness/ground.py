"""What a run stands on: a cluster of its own, removed again afterwards; or one of ours that stays and is only healed.

Gives it together with the ledger that faults are written down in. Knows nothing of load, faults and phases.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pymongo import AsyncMongoClient

from clusters import adopted, kept, local, ownership
from clusters.cluster import Ours, ServerInfo, entrances
from clusters.errors import Refused
from clusters.guard import Guardian, Ledger
from clusters.member import Member
from clusters.providers import Settled
from clusters.topology import Topology
from clusters.uri import Uri
from clusters.wire import access
from faults.nodespec import resolve
from harness import nodes
from harness.scenarios.base import Scenario

if TYPE_CHECKING:
    from harness.histories import History


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on: a cluster, and the ledger that its faults are written down in.

    `history`: where a program of one's own wants its faults and what is watched recorded; a run does that itself.
    """

    cluster: Ours
    ledger: Ledger
    guardian: Guardian
    history: History | None = None

    @property
    def uri(self) -> str:
        """How an application connects."""
        return self.cluster.uri

    @property
    def server(self) -> ServerInfo:
        """Its version, its parameters, and who does the routing."""
        return self.cluster.server

    @property
    def members(self) -> Mapping[str, Member]:
        """Every member by name; the router is none."""
        return self.cluster.members

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        """A driver connected as an application would be, in the loop that first uses it."""
        return self.cluster.client(**options)

    def select(self, spec: str, *, seed: int = 0) -> Selection:
        """The nodes that a node spec means, such as `secondary`, `shard0/primary`, `tag:zone=b` (see
        `faults.nodespec`); what it leaves to chance the seed decides."""
        return Selection(self, spec, seed)


@dataclass(frozen=True, slots=True)
class Selection:
    """Nodes of a cluster as a node spec. Which they are is found out each time anew: roles change."""

    ground: Ground
    spec: str
    seed: int = 0

    async def members(self) -> list[Member]:
        """Those that it means now. Raises Refused where it means none."""
        cluster = self.ground.cluster
        names = resolve(self.spec, await nodes.as_they_are(cluster), random.Random(self.seed))
        return [nodes.node(cluster, name) for name in names]


@asynccontextmanager
async def own_ground(
    topology: Topology,
    name: str,
    *,
    seed: int,
    proxied: bool,
    settled: Settled,
    down: Callable[[], None],
) -> AsyncIterator[Ground]:
    """A cluster brought up for this run; `down` is called before it is taken down."""
    own = await settled.bring_up(topology, name, seed=seed, proxied=proxied)
    try:
        yield Ground(own, own.ledger, own.guardian)
    finally:
        down()
        await own.down()


def kept_ground(
    which: str | Uri, name: str, scenario: Scenario, started: Callable[[Topology, ServerInfo], None]
) -> AbstractAsyncContextManager[Ground]:
    """A cluster of ours, held for this run alone; `started` is called once it is known to be ours and to suit.

    Raises Refused: in use, not ours, or the scenario says why it does not suit.
    """

    def suits(cluster: Ours) -> None:
        unsuited = scenario.suits(cluster)
        if unsuited is not None:
            raise Refused(f"{scenario.name} on {cluster.name}: {unsuited}")
        started(cluster.topology, cluster.server)

    return held_ground(which, name, suits)


@asynccontextmanager
async def held_ground(
    which: str | Uri, name: str, suits: Callable[[Ours], None] = lambda _cluster: None
) -> AsyncIterator[Ground]:
    """A cluster of ours, held under `name`; `suits` is called once it is known to be ours, and may refuse it.

    Raises Refused: in use, or not ours.
    """
    async with ours(which) as (cluster, held):
        suits(cluster)
        ledger, guardian = local.open_ledger(name, on=held)
        try:
            yield Ground(cluster, ledger, guardian)
        finally:
            await local.take_down(ledger, guardian)


@asynccontextmanager
async def ours(which: str | Uri) -> AsyncIterator[tuple[Ours, Ledger]]:
    """A kept or adopted cluster, by name or URI, and its ledger, held: the way of everything that breaks or writes.

    It bears the marker that its ledger says, or this raises Refused; until that is known nothing has been sent to it
    but hello and one find of the marker.
    """
    name = which if isinstance(which, str) else await adopted.named(which)
    held = kept.hold(name)
    try:
        if kept.is_adopted(name):
            uri = adopted.uri_of(adopted.read(name), which if isinstance(which, Uri) else None)
            access.grant(uri.hosts, uri.access)
            await ownership.require(uri.hosts, held.id, name)
            yield await adopted.load(name, uri), held
        else:
            cluster = kept.load(name)
            await ownership.require(entrances(cluster), held.id, name)
            yield cluster, held
    finally:
        held.release()


def processes(cluster: Ours) -> dict[str, list[int]]:
    """The ids of all that runs on this machine for the run, by what it is."""
    router = cluster.router_process
    groups = {
        "members": [one.process.pid for one in cluster.processes if one is not router and one.process is not None],
        "router": [router.process.pid] if router is not None and router.process is not None else [],
        "harness": [os.getpid()],
    }
    return {name: pids for name, pids in groups.items() if pids}
