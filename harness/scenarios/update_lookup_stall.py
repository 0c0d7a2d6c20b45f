"""Does an updateLookup change stream stop, without an error, when the member that serves its lookup is stalled?

The public ticket SERVER-136788 in its recipe: a stream pinned to secondary A by a tag, a reconfiguration that moves the
tag to B, B stalled. Each stream's lookups now go to B and wait; with `--target secondary` there are no tags at all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

import faults
from clusters.cluster import Cluster, ServerInfo
from clusters.member import Member
from clusters.topology import MAX_VOTERS, Role, Settings, Topology, sharded_cluster
from faults import nodespec
from faults.network import in_the_network
from faults.options import parse as parse_options
from harness import nodes, stage
from harness.lookups import NOT_ROUTED, ROUTED_BY_SHARD, lookup_path
from harness.scenarios.base import Load, load_of
from harness.scenarios.parameters import FaultParameters, Parameters
from harness.schedule import Planned

TAG = "lookups"
PINNED = {TAG: "here"}
DOCUMENTS_PER_SHARD = 4

DIAL_DEADLINE = 20.0
"""Seconds after which a lookup that had to dial a frozen member fails with 202, the server's parameter
ShardingTaskExecutorPoolRefreshTimeoutMS (measured on 6.0.5). One on an established connection waits for ever."""

LARGE_SET_CACHE_GB = 1 / 16
"""A few documents need no more, and twenty members then fit into 6 GiB."""

MEMBERS_NEEDED = 3
TOO_SMALL = "at least 3 are needed, or a member that stalls takes the majority with it and no write is acknowledged"

HANGS = (
    *("freeze", "pause-replication", "hang-after-command", "swallow", "blackhole", "half-open", "partition", "isolate"),
    *("kill", "terminate", "remove-member", "hide-member"),
)
"""Faults under which a lookup waits: for its answer, or for a member with the tag, of which there is none."""
SLOWS = ("latency", "bandwidth", "slow-apply", "stutter", "cpu-limit", "memory-limit", "packet-loss", "restart")
"""Faults under which a lookup is late; whether the stream keeps up is a matter of how late, and of the load. A getMore
answers when all lookups of its batch are done: with 0.1 s for each, streams with ten events a second fell silent."""
BREAKS = ("cut",)
"""Faults that break its connection: an error on which the driver resumes by itself."""
SPARES = ("refuse", "move-tags")
"""Faults that lookups do not notice: they have a connection, or another member has the tag."""

OUTCOMES = ("stalled", "bounded", "error surfaced", "no effect", "mixed")


class StallParameters(FaultParameters):
    """Options of `update-lookup-stall`."""

    target: str = Field("tag", description="'tag': move the tag from A to B and break B; or a node spec.")
    pool: Literal["auto", "warm", "cold"] = Field(
        "auto",
        description="Idle connections towards the target when it breaks: 'warm' as the lookups left them, so that all "
        "hang; 'cold' dropped shortly before, so that some must dial and fail after 20 s (code 202); "
        "'auto' is cold where the hold outlasts those 20 s and the target does not answer dials.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> StallParameters:
        if self.fault != "none":
            kind = faults.by_name(self.fault)
            parse_options(kind.name, kind.options, self.fault_option)
        elif self.fault_option or self.release != "heal":
            raise ValueError("--fault none: there is no fault for --fault-option and --release")
        if self.release == "kill-op" and self.target != "tag":
            raise ValueError(
                f"--release kill-op with --target {self.target}: without a tag to take back, the lookups of the "
                "streams that go on would wait for the same member again; expected --target tag"
            )
        if self.hold <= self.threshold:
            raise ValueError(f"--hold {self.hold:g} s: must be longer than --threshold, {self.threshold:g} s")
        if self.cluster is None and self.members < MEMBERS_NEEDED:
            raise ValueError(f"--members {self.members}: {TOO_SMALL}")
        if self.target != "tag" and self.cluster is None:
            _resolve(self.target, nodes.planned(sharded_cluster(self.shards, self.members)), random.Random(self.seed))
        for one in self.expect:
            if one not in OUTCOMES:
                raise ValueError(f"--expect {one}: expected one of {', '.join(OUTCOMES)}")
        return self


class UpdateLookupStall:
    """The scenario; see the module."""

    name: ClassVar[str] = "update-lookup-stall"
    question: ClassVar[str] = "Do updateLookup change streams stop silently when one member stalls?"
    model: ClassVar[type[Parameters]] = StallParameters

    def __init__(self, parameters: StallParameters) -> None:
        self.parameters = parameters
        self._random = random.Random(parameters.seed)

    def topology(self) -> Topology:
        settings = Settings(cache_gb=LARGE_SET_CACHE_GB) if self.parameters.members > MAX_VOTERS else Settings()
        topology = sharded_cluster(self.parameters.shards, self.parameters.members, settings=settings)
        if self.parameters.target == "tag":
            for shard in topology.shards:
                topology = topology.with_member(shard.members[1].name, tags=PINNED)
        return topology

    def proxied(self) -> bool:
        contained, options = self.parameters.provider == "compose", self.parameters.fault_option
        return self.parameters.fault != "none" and in_the_network(self.parameters.fault, options, contained=contained)

    def suits(self, cluster: Cluster) -> str | None:
        if not cluster.topology.sharded:
            return "a plain replica set looks post-images up locally and never stalls: a sharded cluster is needed"
        for shard in cluster.topology.shards:
            if len(shard.members) < MEMBERS_NEEDED:
                return f"{shard.name} has {len(shard.members)} members; {TOO_SMALL}"
        return None

    def expected(self, server: ServerInfo) -> frozenset[str]:
        if self.parameters.expect:
            return frozenset(self.parameters.expect)
        calm = self.parameters.fault == "none" or not self.parameters.traffic
        if calm or self.parameters.full_document == "default":
            return frozenset({"no effect"})
        if self.parameters.fault in SPARES:
            return frozenset({"no effect"})
        if lookup_path(server.version, server.router) == NOT_ROUTED:
            # Read where the stream runs, by no other member: its own is not the one that is broken.
            return frozenset({"no effect"}) if self.parameters.target == "tag" else frozenset()
        if self.parameters.fault in SLOWS:
            return frozenset({"no effect", "bounded", "stalled", "mixed"})
        if self.parameters.fault in BREAKS:
            return frozenset({"no effect", "error surfaced", "mixed"})
        if self.parameters.fault not in HANGS:
            return frozenset()  # Nobody has said what is to come of it.
        if self.parameters.target != "tag":
            # Without tags the members' latencies decide who is looked up at; a stream may be spared for a while.
            return frozenset({"stalled", "mixed"})
        if self._dials_fail:
            # Which lookups find an idle connection and which must dial is the server's business, not ours.
            return frozenset({"stalled", "error surfaced"})
        return frozenset({"stalled"})

    def tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        if self.parameters.target != "tag":
            return {}
        return {
            member.name: PINNED if index == 1 else {}
            for shard in cluster.topology.shards
            for index, member in enumerate(shard.members)
        }

    def moved_tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        if self.parameters.target != "tag":
            return {}
        _, a, b, *_ = cluster.topology.shards[0].members
        return {a.name: {}, b.name: PINNED}

    def selects_by_latency(self, server: ServerInfo) -> bool:
        # A mongos below 8.0 looks up itself, and is none of the members.
        shards_look_up = lookup_path(server.version, server.router) == ROUTED_BY_SHARD
        parameters = self.parameters
        looks_up = parameters.traffic and parameters.full_document == "updateLookup"
        return shards_look_up and looks_up and parameters.target != "tag"

    def load(self, cluster: Cluster, namespace: str, run: str) -> Load:
        tags = PINNED if self.parameters.target == "tag" else None
        return load_of(self.parameters, cluster, namespace, run, DOCUMENTS_PER_SHARD, tags=tags)

    def schedule(self, topology: Topology) -> Sequence[Planned] | None:
        return None

    async def target(self, cluster: Cluster) -> Member:
        if self.parameters.target == "tag":
            return cluster.members[cluster.topology.shards[0].members[2].name]
        return cluster.members[_resolve(self.parameters.target, await nodes.as_they_are(cluster), self._random)]

    @property
    def _dials_fail(self) -> bool:
        """Whether the hold is long enough for a dial to fail; a target that answers hello can be dialled."""
        spared = self.parameters.fault != "none" and faults.by_name(self.parameters.fault).spares_health
        return self.parameters.hold > DIAL_DEADLINE and not spared

    def fault_options(self, cluster: Cluster) -> list[str]:
        """A fault in the network strikes the lookups alone, and those of A: who else talks to B finds it healthy."""
        given = self.parameters.fault_option
        if cluster.proxy is None or not self.proxied() or self.parameters.target != "tag":
            return given
        known = faults.by_name(self.parameters.fault).options.model_fields
        lookups = {"source": cluster.topology.shards[0].members[1].name, "commands": "aggregate"}
        named = [one.partition("=")[0] for one in given]
        return [*given, *(f"{name}={value}" for name, value in lookups.items() if name in known and name not in named)]

    async def cool(self, cluster: Cluster, target: Member) -> bool:
        pool = self.parameters.pool
        if pool == "warm" or (pool == "auto" and not self._dials_fail):
            return False
        await stage.drop_pooled(cluster, target)
        return True


def _resolve(spec: str, states: Sequence[nodespec.NodeState], source: random.Random) -> str:
    """One member, for no lookup goes to the router. A plain `secondary` or `primary` is that of the first shard, which
    every stream waits for."""
    if spec in ("primary", "secondary", "one"):
        spec = f"{next(one.set_name for one in states if one.role is Role.SHARD)}/{spec}"
    return nodespec.resolve(spec, [one for one in states if one.role is not Role.ROUTER], source)[0]
