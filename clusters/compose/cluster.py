"""A cluster of containers on one network (see `clusters.cluster.Cluster`), and one that this process brought up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from clusters import ports
from clusters.cluster import ServerInfo
from clusters.compose.container import ContainerMember
from clusters.guard import Guardian, Ledger
from clusters.local import take_down, uri_of
from clusters.member import LocalMember, LocalProcess
from clusters.topology import Topology


@dataclass(kw_only=True)
class ComposeCluster:
    """A cluster of containers, whoever is to remove it. The stand-in router and the proxy, where there are any, are
    processes of this machine."""

    name: str
    topology: Topology
    members: Mapping[str, ContainerMember]
    router_process: LocalMember | ContainerMember | None
    server: ServerInfo
    directory: Path
    proxy: LocalProcess | None = None
    """See `clusters.local.LocalCluster.proxy`."""

    router: str | None = field(init=False)
    uri: str = field(init=False)

    def __post_init__(self) -> None:
        self.router = self.router_process.host if self.router_process is not None else None
        self.uri = uri_of(self.topology, self.router, [member.host for member in self.members.values()])

    @property
    def processes(self) -> Sequence[LocalProcess | ContainerMember]:
        return [*self.members.values(), *(one for one in (self.router_process, self.proxy) if one is not None)]

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(self.uri, **options)


@dataclass(kw_only=True)
class OwnComposeCluster(ComposeCluster):
    """One that this process brought up (see `clusters.cluster.Own`)."""

    ledger: Ledger
    guardian: Guardian

    async def down(self) -> None:
        await take_down(self.ledger, self.guardian)
        # Hosts are no ports of this machine where no proxy stands before them.
        before = [] if self.proxy is None else [one.host for one in self.processes]
        ports.give_back(int(one.rpartition(":")[2]) for one in [*before, *(one.listens for one in self.processes)])

    def keep(self) -> None:
        self.ledger.keep()
        self.guardian.dismiss()
        self.ledger.release()
