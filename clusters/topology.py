"""What a cluster is made of, as plain data: sets, members, tags, parameters.

No I/O and no knowledge of how members are started; a provider turns a `Topology` into processes or containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

MAX_VOTERS = 7
"""A replica set has at most seven voting members (manual: Replica Set Configuration, `members[n].votes`)."""


class Role(StrEnum):
    """What a set of members is for."""

    CONFIG = "config"
    SHARD = "shard"
    REPLICA_SET = "replica-set"
    ROUTER_HOST = "router-host"
    """The mongod in whose process the stand-in router runs its `cluster*` commands; owns no chunk."""
    ROUTER = "router"
    """The router itself, which is in no set and no member; a target as they are."""

    @property
    def holds_data(self) -> bool:
        """Whether users' documents live on such members."""
        return self in (Role.SHARD, Role.REPLICA_SET)

    @property
    def is_mongod(self) -> bool:
        """Whether it is a member of a set; the router is none."""
        return self is not Role.ROUTER


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One mongod: its name (`shard0-1`), its set, and what its replica set configuration says of it."""

    name: str
    set_name: str
    role: Role
    priority: float = 1.0
    votes: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    """`setParameter` values of this member alone, over those of the topology."""


ROUTER = MemberSpec("router", "", Role.ROUTER)
"""The router's process, for those to whom it is a target like a member."""


@dataclass(frozen=True, slots=True)
class SetSpec:
    """A replica set: a shard, the config servers, the router host, or a replica set of its own."""

    name: str
    role: Role
    members: tuple[MemberSpec, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every member of a cluster. Durations in milliseconds.

    `server_version`: one of `clusters.releases`; None for the servers there are.
    """

    heartbeat_ms: int = 2000
    election_timeout_ms: int = 10_000
    cache_gb: float = 0.25
    oplog_mb: int = 64
    balancer: bool = False
    chaining_allowed: bool = False
    server_version: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topology:
    """A whole cluster. `shards` holds the one set where the cluster is a plain replica set."""

    shards: tuple[SetSpec, ...]
    config: SetSpec | None = None
    router_host: SetSpec | None = None
    settings: Settings = field(default_factory=Settings)

    @property
    def sharded(self) -> bool:
        return self.config is not None

    def sets(self) -> Iterator[SetSpec]:
        """Every set: config servers first, then shards, then the router host."""
        if self.config is not None:
            yield self.config
        yield from self.shards
        if self.router_host is not None:
            yield self.router_host

    def members(self) -> Iterator[MemberSpec]:
        for one in self.sets():
            yield from one.members

    def of_version(self, version: str | None) -> Topology:
        """The same topology on servers of this version (see `Settings`)."""
        return replace(self, settings=replace(self.settings, server_version=version))

    def with_member(self, name: str, **fields: Any) -> Topology:
        """The same topology with some fields of one member changed. Raises KeyError where there is no such member."""
        if all(member.name != name for member in self.members()):
            raise KeyError(name)

        def changed(one: SetSpec) -> SetSpec:
            members = (replace(each, **fields) if each.name == name else each for each in one.members)
            return replace(one, members=tuple(members))

        return replace(
            self,
            shards=tuple(changed(shard) for shard in self.shards),
            config=self.config and changed(self.config),
            router_host=self.router_host and changed(self.router_host),
        )


def replica_set(name: str, role: Role, size: int, **common: object) -> SetSpec:
    """A set of `size` members called `NAME-0`..; the first has priority 2 so that it is the primary at first.

    Members past the seventh get no vote and, as the server demands of them, priority 0.
    """
    if size < 1:
        raise ValueError(f"a set needs at least 1 member, got {size}")
    members = tuple(
        MemberSpec(
            name=f"{name}-{index}",
            set_name=name,
            role=role,
            priority=(2.0 if index == 0 else 1.0) if index < MAX_VOTERS else 0.0,
            votes=1 if index < MAX_VOTERS else 0,
            **common,  # type: ignore[arg-type]
        )
        for index in range(size)
    )
    return SetSpec(name, role, members)


def sharded_cluster(
    shards: int = 2,
    members: int = 3,
    *,
    config_members: int = 1,
    router_host: bool = True,
    settings: Settings | None = None,
) -> Topology:
    """`shards` shards `shard0`.. of `members` members, config set `config`, a router host unless a mongos is used."""
    if shards < 1:
        raise ValueError(f"a sharded cluster needs at least 1 shard, got {shards}")
    return Topology(
        shards=tuple(replica_set(f"shard{index}", Role.SHARD, members) for index in range(shards)),
        config=replica_set("config", Role.CONFIG, config_members),
        router_host=replica_set("router", Role.ROUTER_HOST, 1) if router_host else None,
        settings=settings or Settings(),
    )


def single_replica_set(members: int = 3, *, name: str = "rs0", settings: Settings | None = None) -> Topology:
    """A plain replica set, no router."""
    return Topology(shards=(replica_set(name, Role.REPLICA_SET, members),), settings=settings or Settings())
