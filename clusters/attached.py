"""A cluster that exists already: reached by the network alone, found out by `discovery`.

No process of it is ours: nothing here starts, stops, kills or freezes. Whether it may be broken, `ownership` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pymongo import AsyncMongoClient

from clusters.cluster import Proxy, ServerInfo
from clusters.errors import ClusterError
from clusters.member import LocalMember, LocalProcess
from clusters.topology import MemberSpec, Topology

NOT_OURS: Final = "is no process of ours: it runs where only its owner can reach it"


class AttachedMember:
    """A member that is reached by the network alone (see `clusters.member.Member`)."""

    def __init__(self, spec: MemberSpec, host: str, options: Mapping[str, Any]) -> None:
        """`options` of the driver, to be let in."""
        self.spec = spec
        self.host = host
        self._options = options

    @property
    def name(self) -> str:
        return self.spec.name

    def freeze(self) -> None:
        raise ClusterError(f"{self.name} {NOT_OURS}")

    def thaw(self) -> None:
        """It is never frozen by us."""

    def frozen(self) -> bool:
        return False

    def running(self) -> bool:
        """As far as is known: that it is gone nobody can tell from here."""
        return True

    async def kill(self, *, deadline: float = 10) -> None:
        raise ClusterError(f"{self.name} {NOT_OURS}")

    async def start(self, *, deadline: float = 60) -> None:
        raise ClusterError(f"{self.name} {NOT_OURS}")

    def log_lines(self, since: float = 0.0) -> list[str]:
        return []

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(f"mongodb://{self.host}/", directConnection=True, **{**self._options, **options})


@dataclass
class AttachedCluster:
    """A cluster that was there before us (see `clusters.cluster.Cluster`). `uri` is for drivers, with its secrets."""

    name: str
    topology: Topology
    members: Mapping[str, AttachedMember]
    router: str | None
    server: ServerInfo
    uri: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    """What a driver needs to be let in by a single member; nothing where everybody is."""
    processes: list[LocalProcess] = field(default_factory=list)
    router_process: LocalMember | None = None
    proxy: Proxy | None = None

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(self.uri, **options)
