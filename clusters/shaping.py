"""From running members to a cluster: sets initiated, shards added, the router host attached; provider-neutral."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from clusters import admin, quirks
from clusters.commandline import BRING_UP_FAIL_POINTS
from clusters.liveness import together
from clusters.topology import MAX_VOTERS, MemberSpec, SetSpec, Topology
from clusters.wire.connection import Connection

LISTEN_DEADLINE = 60.0
SECONDARY_DEADLINE = 100.0


def connection_string(topology: Topology, hosts: Mapping[str, str]) -> str:
    """`config/host1,host2`: how shards and routers are told of the config servers."""
    assert topology.config is not None
    return f"{topology.config.name}/" + ",".join(hosts[member.name] for member in topology.config.members)


def without_router_host(topology: Topology) -> Topology:
    """The same cluster for a real mongos, which needs no mongod to run its commands in."""
    return dataclasses.replace(topology, router_host=None)


async def shape(
    topology: Topology, hosts: Mapping[str, str], *, fail_points: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Initiate all sets at once, add the shards, attach the router host, wait for every SECONDARY, tidy up.

    `hosts` maps member names to `address:port`. `fail_points`: switched on first, in members that were not started
    with them. Raises ClusterError naming what was waited for.
    """
    connections: dict[str, Connection] = {}

    async def met(member: MemberSpec) -> None:
        connections[member.name] = await admin.connect(hosts[member.name], deadline=LISTEN_DEADLINE)
        await admin.fail_points_on(connections[member.name], fail_points or {})

    async def initiated(one: SetSpec) -> None:
        await together(*(met(member) for member in one.members))
        await admin.initiate(connections[one.members[0].name], one, hosts, topology.settings)

    try:
        await together(*(initiated(one) for one in topology.sets()))
        # Adding a shard writes the feature compatibility version, and an initial sync that meets this write starts
        # over (measured on 6.0.5); while few members sync there is no time for that.
        large = [member for one in topology.sets() if len(one.members) > MAX_VOTERS for member in one.members]
        await together(*(_settle(connections[member.name], member.set_name) for member in large))
        if topology.config is not None:
            await _join(topology, hosts, connections)
        await together(*(_settle(connections[member.name], member.set_name) for member in topology.members()))
        heartbeat_ms = topology.settings.heartbeat_ms
        firsts = [connections[one.members[0].name] for one in topology.sets()]
        await together(*(admin.set_heartbeat(first, heartbeat_ms) for first in firsts))
    finally:
        for connection in connections.values():
            connection.close()


async def _settle(member: Connection, set_name: str) -> None:
    """Wait until it is a SECONDARY or the primary; then what hurried it on has done its work."""
    await admin.secondary(member, set_name, deadline=SECONDARY_DEADLINE)
    await admin.fail_points_off(member, BRING_UP_FAIL_POINTS)


async def _join(topology: Topology, hosts: Mapping[str, str], connections: Mapping[str, Connection]) -> None:
    assert topology.config is not None
    config = connections[topology.config.members[0].name]
    for shard in topology.shards:
        await admin.add_shard(config, shard.name, [hosts[member.name] for member in shard.members])
    if topology.router_host is not None:
        router_host = connections[topology.router_host.members[0].name]
        version = quirks.of_version(await admin.server_version(config)).feature_version
        await admin.attach_router_host(config, router_host, connection_string(topology, hosts), version)
    await admin.set_balancer(config, on=topology.settings.balancer)
