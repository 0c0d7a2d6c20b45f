"""Is anything lost, doubled or left broken by a random schedule of faults, each of them proven and healed?

The schedule is fixed by the seed. Streams may fall silent and operations fail while faults act: what counts is what is
left afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

import faults
from clusters.cluster import Cluster, ServerInfo
from clusters.topology import Topology, sharded_cluster
from faults.network import in_the_network
from harness.drivers.clients import parse_driver_options
from harness.drivers.streams import StreamPlan
from harness.drivers.writers import Document
from harness.measures import SOUND
from harness.record import Record
from harness.scenarios.base import Load
from harness.scenarios.parameters import Parameters, Seconds
from harness.schedule import Planned, Wish, of_plain, plan

DOCUMENTS_PER_SHARD = 8


class ChaosParameters(Parameters):
    """Options of `chaos`."""

    duration: Seconds = Field(120.0, gt=0, le=86_400, description="How long faults come.")
    every: Seconds = Field(20.0, ge=2, le=3600, description="A fault begins about so often; they may overlap.")
    faults: str = Field(
        "freeze,pause-replication,hang-after-command",
        description="Which faults, by name and comma; each as it is without options.",
    )
    beyond_majority: bool = Field(False, description="Break more of a set at once than it can do without.")
    replay: str | None = Field(None, description="The record of a run whose schedule is done again.")
    streams: int = Field(8, ge=1, le=10_000, description="Change streams, each with a client of its own.")
    writers: int = Field(4, ge=1, le=DOCUMENTS_PER_SHARD, description="Writers, each with a client of its own.")
    rate: float = Field(20.0, gt=0, le=10_000, description="Writes per second, over all writers.")
    full_document: Literal["updateLookup", "default"] = Field(
        "updateLookup", description="'default' asks for no post-image: then nothing is looked up."
    )
    driver_option: list[str] = Field(
        default_factory=list,
        description="NAME=VALUE for the streams' clients, e.g. socketTimeoutMS=3000 (may be repeated).",
    )

    @property
    def wish(self) -> Wish:
        names = [one.strip() for one in self.faults.split(",") if one.strip()]
        return Wish(self.seed, self.duration, self.every, names, not self.beyond_majority)

    @model_validator(mode="after")
    def _consistent(self) -> ChaosParameters:
        for name in self.wish.faults:
            faults.by_name(name)
        parse_driver_options(self.driver_option)
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
        return any(in_the_network(name) for name in self.parameters.wish.faults)

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
        parameters = self.parameters
        return Load(
            namespace=namespace,
            streams=StreamPlan(
                uri=cluster.uri,
                namespace=namespace,
                count=parameters.streams,
                run=run,
                read_preference="secondary",
                full_document=parameters.full_document,
                driver_options=parse_driver_options(parameters.driver_option),
                driver=parameters.driver,
            ),
            documents=[
                Document(f"{shard.name}-k{number}", shard.name, {"_id": f"{shard.name}-k{number}", "region": region})
                for region, shard in enumerate(cluster.topology.shards)
                for number in range(DOCUMENTS_PER_SHARD)
            ],
            rate=parameters.rate,
            writers=parameters.writers,
        )

    def schedule(self, topology: Topology) -> Sequence[Planned]:
        if self.parameters.replay is not None:
            _parameters, stored = Record.at(Path(self.parameters.replay)).chaos()
            return [of_plain(one) for one in stored]
        return plan(self.parameters.wish, topology)
