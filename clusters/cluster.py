"""A running cluster as the rooms above see it: members by name, the router, how to connect, what server it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pymongo import AsyncMongoClient

from clusters.errors import ClusterError
from clusters.guard import Guardian, Ledger
from clusters.member import Member, Server, Watched
from clusters.topology import Topology
from clusters.wire.connection import Connection, ConnectionLost, DeadlinePassed

RouterKind = Literal["mongos", "stand-in", "none"]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What every answer carries: server version, the parameters that matter, and who does the routing."""

    version: str
    git_version: str
    router: RouterKind
    parameters: Mapping[str, str] = field(default_factory=dict)


class Proxy(Protocol):
    """The process that stands before every node; `host` is its control address."""

    host: str

    def running(self) -> bool: ...


class Cluster(Protocol):
    """A cluster, whoever provides it. `router` is the router's `address:port`, None for a replica set."""

    name: str
    topology: Topology
    uri: str
    router: str | None
    server: ServerInfo

    @property
    def router_process(self) -> Member | None:
        """The router as a target, where it is a process of ours."""

    @property
    def proxy(self) -> Proxy | None:
        """Through which all connections go, where it was brought up so."""

    @property
    def members(self) -> Mapping[str, Member]: ...

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        """A driver connected as an application would be."""


class Ours(Cluster, Protocol):
    """A cluster that may be broken: one of ours, or one that was made ours."""

    @property
    def router_process(self) -> Server | None: ...

    @property
    def processes(self) -> Sequence[Watched]:
        """All that runs for it and is ours, members and router among it; their ends are noticed."""


class Own(Ours, Protocol):
    """One that this process brought up: it holds the ledger that tells how to remove it, and its guardian."""

    directory: Path
    ledger: Ledger
    guardian: Guardian

    async def down(self) -> None:
        """Remove all of it. Raises ClusterError naming what could not be removed."""

    def keep(self) -> None:
        """From now on the cluster outlives this process; `mongofault down` removes it."""


def entrances(cluster: Cluster) -> list[str]:
    """Where an application comes in (`address:port`): the router, or the members of the replica set."""
    return [cluster.router] if cluster.router else [member.host for member in cluster.members.values()]


def of_set(cluster: Cluster, set_name: str) -> list[Member]:
    """The members of one set, in the order of the topology."""
    return [member for member in cluster.members.values() if member.spec.set_name == set_name]


def data_members(cluster: Cluster) -> list[Member]:
    """The members that hold user data: those of the shards, or of the replica set."""
    return [one for one in cluster.members.values() if one.spec.role.holds_data]


async def primary_of(cluster: Cluster, set_name: str, *, deadline: float = 5) -> Member:
    """The member that says it is the writable primary of its set. Raises ClusterError when none does."""
    for member in of_set(cluster, set_name):
        if member.frozen():
            continue
        try:
            connection = await Connection.open(member.host, deadline=deadline)
        except (ConnectionLost, DeadlinePassed):
            continue
        connection.close()
        if connection.hello.get("isWritablePrimary"):
            return member
    raise ClusterError(f"no member of {set_name} says it is the writable primary")
