"""What a scenario is: a question, its parameters, what is set up, loaded, broken and expected.

A scenario says what; the order of things, the healing and the judging are `harness.run`'s and that of its ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from clusters.cluster import Cluster, ServerInfo
from clusters.member import Member
from clusters.topology import Topology
from harness.drivers.clients import parse_driver_options
from harness.drivers.streams import StreamPlan
from harness.drivers.writers import Document
from harness.scenarios.parameters import FaultParameters, Parameters, StreamParameters
from harness.schedule import Planned


@dataclass(frozen=True, slots=True)
class Load:
    """What drives the cluster: consumers of one namespace, and paced writers into it who share documents and rate."""

    namespace: str
    streams: StreamPlan
    documents: Sequence[Document]
    rate: float
    writers: int = 1


def load_of(
    parameters: StreamParameters,
    cluster: Cluster,
    namespace: str,
    run: str,
    documents: int,
    *,
    tags: Mapping[str, str] | None = None,
    writers: int = 1,
) -> Load:
    """Streams on secondaries, those with these tags if any are given, and so many documents on each shard."""
    return Load(
        namespace=namespace,
        streams=StreamPlan(
            uri=cluster.uri,
            namespace=namespace,
            count=parameters.streams,
            run=run,
            read_preference="secondary",
            tags=tags,
            full_document=parameters.full_document,
            driver_options=parse_driver_options(parameters.driver_option),
            driver=parameters.driver,
        ),
        documents=[
            Document(f"{shard.name}-k{number}", shard.name, {"_id": f"{shard.name}-k{number}", "region": region})
            for region, shard in enumerate(cluster.topology.shards)
            for number in range(documents)
        ],
        rate=parameters.rate,
        writers=writers,
    )


class Scenario(Protocol):
    """One question, asked of one cluster."""

    name: ClassVar[str]
    question: ClassVar[str]
    model: ClassVar[type[Parameters]]

    def __init__(self, parameters: Any) -> None: ...

    @property
    def parameters(self) -> Parameters: ...

    def topology(self) -> Topology:
        """The cluster to bring up for it."""

    def proxied(self) -> bool:
        """Whether that cluster needs a proxy before its nodes."""

    def suits(self, cluster: Cluster) -> str | None:
        """Why it cannot be asked of this cluster, or None."""

    def expected(self, server: ServerInfo) -> frozenset[str]:
        """The acceptable outcomes on such a server."""


class StreamScenario(Scenario, Protocol):
    """A question about change streams, asked while writers write and something is broken."""

    @property
    def parameters(self) -> StreamParameters: ...

    def tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        """Tags that members (by name) must bear before the streams are opened."""

    def moved_tags(self, cluster: Cluster) -> Mapping[str, Mapping[str, str]]:
        """Tags to be changed once the streams are open and deliver; empty where the recipe needs no such move."""

    def selects_by_latency(self, server: ServerInfo) -> bool:
        """Whether lookups go to any of the members that are near: then all must be so before anything is broken."""

    def load(self, cluster: Cluster, namespace: str, run: str) -> Load: ...

    def schedule(self, topology: Topology) -> Sequence[Planned] | None:
        """The faults to inject, where there may be several; None: the one of `OneFault`."""


class OneFault(StreamScenario, Protocol):
    """A question about one fault, held for a while."""

    @property
    def parameters(self) -> FaultParameters: ...

    async def target(self, cluster: Cluster) -> Member:
        """The member to break."""

    def fault_options(self, cluster: Cluster) -> list[str]:
        """The options of the fault: those given, and what the question says of the rest."""

    async def cool(self, cluster: Cluster, target: Member) -> bool:
        """Leave few idle connections towards the target; False where that is not asked for."""
