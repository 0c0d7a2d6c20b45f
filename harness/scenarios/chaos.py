"""Is anything lost, doubled or left broken by a random schedule of faults, each of them proven and healed?

The schedule is fixed by the seed. Streams may fall silent and operations fail while faults act: what counts is what is
left afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

import faults
from clusters.cluster import Cluster, ServerInfo
from clusters.topology import Topology, sharded_cluster
from faults.network import in_the_network
from harness.measures import SOUND
from harness.record import Record
from harness.scenarios.base import Load, load_of
from harness.scenarios.parameters import Parameters, Seconds, StreamParameters
from harness.schedule import Planned, Wish, of_plain, plan

DOCUMENTS_PER_SHARD = 8


class ChaosParameters(StreamParameters):
    """Options of `chaos`."""

    duration: Seconds = Field(120.0, gt=0, le=86_400, description="How long faults come.")
    every: Seconds = Field(20.0, ge=2, le=3600, description="A fault begins about so often; they may overlap.")
    faults: str = Field(
        "freeze,pause-replication,hang-after-command",
        description="Which faults, by name and comma; each as it is without options.",
    )
    beyond_majority: bool = Field(False, description="Break more of a set at once than it can do without.")
    replay: str | None = Field(None, description="The record of a run whose schedule is done again.")
    writers: int = Field(4, ge=1, le=DOCUMENTS_PER_SHARD, description="Writers, each with a client of its own.")

    @property
    def wish(self) -> Wish:
        names = [one.strip() for one in self.faults.split(",") if one.strip()]
        return Wish(self.seed, self.duration, self.every, names, not self.beyond_majority)

    @model_validator(mode="after")
    def _consistent(self) -> ChaosParameters:
        for name in self.wish.faults:
            faults.by_name(name)
        if self.cluster is None and self.replay is None:
            plan(self.wish, sharded_cluster(self.shards, self.members))
        for one in self.expect:
            if one != SOUND:
                raise ValueError(f"--expect {one}: expected {SOUND}")
        return self


class Chaos:
    """The scenario; see the module."""

    name: ClassVar[str] = "chaos"
    question: ClassVar[str] = "Is anything lost, doubled or left broken by a random schedule of faults?"
    model: ClassVar[type[Parameters]] = ChaosParameters

    def __init__(self, parameters: ChaosParameters) -> None:
        self.parameters = parameters

    def topology(self) -> Topology:
        return sharded_cluster(self.parameters.shards, self.parameters.members)

    def proxied(self) -> bool:
        contained = self.parameters.provider == "compose"
        return any(in_the_network(name, contained=contained) for name in self.parameters.wish.faults)

    def suits(self, cluster: Cluster) -> str | None:
        return None if cluster.topology.sharded else "a sharded cluster is needed"

    def expected(self, server: ServerInfo) -> frozenset[str]:
        return frozenset({SOUND})

    def tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        return {}

    def moved_tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        return {}

    def selects_by_latency(self, server: ServerInfo) -> bool:
        return False

    def load(self, cluster: Cluster, namespace: str, run: str) -> Load:
        return load_of(self.parameters, cluster, namespace, run, DOCUMENTS_PER_SHARD, writers=self.parameters.writers)

    def schedule(self, topology: Topology) -> Sequence[Planned]:
        if self.parameters.replay is not None:
            _parameters, stored = Record.at(Path(self.parameters.replay)).chaos()
            return [of_plain(one) for one in stored]
        return plan(self.parameters.wish, topology)
