"""The nodes of a cluster as node specs see them: members and the router, as they are planned or as they are now."""

from __future__ import annotations

import asyncio

from clusters.cluster import Cluster, primary_of
from clusters.errors import ClusterError
from clusters.member import Member
from clusters.topology import ROUTER, Topology
from faults.nodespec import NodeState

_ROUTER = NodeState(ROUTER.name, ROUTER.set_name, ROUTER.role, primary=False)


def planned(topology: Topology) -> list[NodeState]:
    """Every node once the cluster is up: of each set the first member is the primary."""
    members = [
        NodeState(member.name, one.name, member.role, index == 0, member.tags)
        for one in topology.sets()
        for index, member in enumerate(one.members)
    ]
    return [*members, *([_ROUTER] if topology.sharded else [])]


async def as_they_are(cluster: Cluster) -> list[NodeState]:
    """Every node now. Of a set without a primary none is one."""
    names = [one.name for one in cluster.topology.sets()]
    primaries = set(await asyncio.gather(*(_primary(cluster, name) for name in names)))
    members = [
        NodeState(member.name, member.spec.set_name, member.spec.role, member.name in primaries, member.spec.tags)
        for member in cluster.members.values()
    ]
    return [*members, *([_ROUTER] if cluster.router_process is not None else [])]


def node(cluster: Cluster, name: str) -> Member:
    """The member of that name, or the router. Raises KeyError."""
    if name == ROUTER.name and cluster.router_process is not None:
        return cluster.router_process
    return cluster.members[name]


async def _primary(cluster: Cluster, set_name: str) -> str | None:
    try:
        return (await primary_of(cluster, set_name)).name
    except ClusterError:
        return None
