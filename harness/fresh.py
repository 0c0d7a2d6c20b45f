"""Clusters for a program of one's own: brought up for a block, removed at its end; by the guardian if it is killed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters import providers
from clusters.providers import Provider
from clusters.topology import Settings, Topology, sharded_cluster, single_replica_set
from harness.ground import Ground, own_ground
from harness.histories import History
from harness.injected import recorded


@asynccontextmanager
async def local_cluster(
    shards: int = 2,
    members: int = 3,
    *,
    version: str | None = None,
    settings: Settings | None = None,
    proxied: bool = False,
    provider: Provider = "local",
    history: History | None = None,
    seed: int = 0,
) -> AsyncIterator[Ground]:
    """A sharded cluster of this machine, Ready, for a block: `async with local_cluster(shards=2) as c`.

    `version` one that is installed (`mongofault binaries list`), else the server there is. `proxied`: with a proxy
    before every node, which faults of the network need. Raises Refused where nothing was started, ClusterError.
    """
    topology = sharded_cluster(shards, members, settings=settings)
    async with standing(topology, version, proxied=proxied, provider=provider, history=history, seed=seed) as ground:
        yield ground


@asynccontextmanager
async def replica_set(
    members: int = 3,
    *,
    version: str | None = None,
    settings: Settings | None = None,
    proxied: bool = False,
    provider: Provider = "local",
    history: History | None = None,
    seed: int = 0,
) -> AsyncIterator[Ground]:
    """The same of a plain replica set, `rs0`."""
    topology = single_replica_set(members, settings=settings)
    async with standing(topology, version, proxied=proxied, provider=provider, history=history, seed=seed) as ground:
        yield ground


@asynccontextmanager
async def standing(
    topology: Topology,
    version: str | None = None,
    *,
    proxied: bool = False,
    provider: Provider = "local",
    history: History | None = None,
    seed: int = 0,
) -> AsyncIterator[Ground]:
    """The same of any topology."""
    topology = topology if version is None else topology.of_version(version)
    settled = await asyncio.to_thread(providers.settle, topology, provider, None, proxied=proxied)
    name = f"python-{secrets.token_hex(3)}"
    async with own_ground(topology, name, seed=seed, proxied=proxied, settled=settled, down=lambda: None) as ground:
        yield recorded(ground, history)
