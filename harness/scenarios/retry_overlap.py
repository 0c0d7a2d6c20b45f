"""How many copies of one write do a driver's retries times an application's retries pile up on a server that stalls?

Consumers write each record of a topic as an application would, with the user's own settings; the server stalls until
they have given up, or as long as is asked. What was sent and what ran is counted, and held against the prediction.
"""

from __future__ import annotations

from typing import ClassVar, Final

from clusters.cluster import Cluster, ServerInfo
from clusters.topology import Settings, Topology, sharded_cluster, single_replica_set
from faults.network import in_the_network
from harness.drivers import kinds, retries
from harness.drivers.consumers import ConsumersPlan, in_group, names
from harness.drivers.polling import Handling
from harness.measures import EXCEEDED, MAXIMUM, NO_OVERLAP, OVERLAP, OVERLOADED
from harness.prediction import Server
from harness.scenarios.overlap_faults import IN_ENGINE, engine_hang
from harness.scenarios.overlap_parameters import OverlapParameters
from harness.scenarios.parameters import Parameters

GIVE_UP_DEADLINE: Final = 60.0
"""Seconds beyond those predicted until all consumers must be done; a fault that needs not hang makes it no later."""
MOST_WARM: Final = 100
"""Connections of a pool, by the drivers' default (maxPoolSize)."""


class RetryOverlap:
    """The scenario; see the module."""

    name: ClassVar[str] = "retry-overlap"
    question: ClassVar[str] = "How many copies of one write do driver retries times application retries pile up?"
    model: ClassVar[type[Parameters]] = OverlapParameters

    def __init__(self, parameters: OverlapParameters) -> None:
        self.parameters = parameters
        self.prediction = parameters.prediction
        self.kind = kinds.kind(parameters.write)

    def topology(self) -> Topology:
        settings = Settings(election_timeout_ms=round(self.parameters.election_timeout * 1000))
        if not self.parameters.shards:
            return single_replica_set(self.parameters.members, settings=settings)
        return sharded_cluster(self.parameters.shards, self.parameters.members, settings=settings)

    def proxied(self) -> bool:
        """Always: the proxy's tap is what counts the sends."""
        return True

    def suits(self, cluster: Cluster) -> str | None:
        if cluster.proxy is None and in_the_network(self.parameters.fault, self.parameters.fault_option):
            return f"{self.parameters.fault} needs a proxy before every node (mongofault up --proxied)"
        return None

    def expected(self, server: ServerInfo) -> frozenset[str]:
        """By the prediction, where the server does from the first send on what is assumed of it."""
        if self.parameters.expect:
            return frozenset(self.parameters.expect)
        fault, hold = self.parameters.fault, self.parameters.hold
        uncertain = frozenset({MAXIMUM, OVERLAP, NO_OVERLAP})
        if self.prediction.settings.server is Server.REFUSES and (
            self.prediction.bounds.sends is None or self._overloaded
        ):
            uncertain |= {EXCEEDED}
        if self.parameters.every is not None:
            return uncertain
        if fault in ("none", "swallow"):
            return frozenset({NO_OVERLAP})
        if fault not in {"fail-command", *IN_ENGINE} or (fault == "fail-command" and self.parameters.fault_option):
            return uncertain
        course, most = self.prediction.timeline, self.prediction.bounds
        if hold is not None and (course.give_up is None or hold < course.give_up):
            return frozenset({OVERLAP, NO_OVERLAP})
        if most.sends is None or course.sends is None:
            return frozenset({NO_OVERLAP, OVERLAP, EXCEEDED})
        if course.copies <= 1:
            return frozenset({NO_OVERLAP})
        if fault == "no-tickets" and self.parameters.max_time is not None:
            # The driver gives up before the server looks; what has expired by then is ended soon after.
            return uncertain
        return frozenset({MAXIMUM if (course.sends, course.copies) == (most.sends, most.copies) else OVERLAP})

    @property
    def done_within(self) -> float:
        """Seconds until all consumers must be done with their records, once they have begun."""
        each = self.prediction.give_up or 0.0
        records = -(-self.parameters.produced // self.parameters.consumers)
        given_up = each * records * (1 + self.prediction.polls.redeliveries)
        return given_up + self.parameters.production + GIVE_UP_DEADLINE

    @property
    def _overloaded(self) -> bool:
        """Whether the fault's errors say that the server is overloaded: the driver then resends more than once."""
        return any(OVERLOADED in one for one in self.parameters.fault_option)

    def fault_options(self, namespace: str, sharded: bool) -> list[str]:
        """Those given; else what makes the fault hold the writes of the run, and nothing else."""
        given, fault, command = self.parameters.fault_option, self.parameters.fault, self.kind.command
        if given:
            return given
        if fault == "fail-command":
            block = round(self.parameters.held * 1000)
            routed = ["failInternalCommands=yes"] if sharded else []
            return [f"commands={command}", f"blockTimeMS={block}", "namespace=watched", *routed]
        if fault == "fail-point":
            point, data = engine_hang(command, namespace)
            return [f"point={point}", f"data={data}"]
        if fault == "write-conflict" and self.kind.name == "insert-business-id":
            return [f"ids={','.join(names(self.parameters.consumers, self.parameters.produced))}"]
        if fault == "swallow":
            return ["source=driver", f"commands={command}"]
        return []

    def fail_points(self, namespace: str, sharded: bool) -> list[str]:
        """The server's own names of those that the fault is made of."""
        if self.parameters.fault == "fail-command":
            return ["failCommand"]
        options = (one.partition("=") for one in self.fault_options(namespace, sharded))
        return [value for name, _, value in options if name == "point" and self.parameters.fault == "fail-point"]

    def plan(self, cluster: Cluster, namespace: str, run: str) -> ConsumersPlan:
        """The consumers of the run."""
        parameters = self.parameters
        most = self.prediction.bounds.sends or 2 * self.prediction.bounds.executions
        sharers = parameters.consumers if parameters.shared_client else 1
        return ConsumersPlan(
            uri=cluster.uri,
            namespace=namespace,
            run=run,
            kind=self.kind,
            handling=Handling(
                retries.parse(parameters.retry),
                seek_after_error=parameters.seek_after_error,
                not_retryable=frozenset(int(one) if one.isdigit() else one for one in parameters.not_retryable),
                seed=parameters.seed,
            ),
            partitions=parameters.consumers,
            records=parameters.produced,
            consumers=parameters.consumers,
            group=in_group(
                max_poll_records=parameters.max_poll_records,
                max_poll_interval_ms=round(parameters.max_poll_interval * 1000),
                session_timeout_ms=round(parameters.session_timeout * 1000),
                heartbeat_interval_ms=max(1, round(parameters.session_timeout * 1000 / 15)),
                rebalance=parameters.rebalance,
            ),
            driver=parameters.driver,
            driver_options=parameters.driver_options,
            shared_client=parameters.shared_client,
            explicit_session=parameters.explicit_session,
            write_concern=1 if parameters.write_concern == "1" else "majority",
            max_time_ms=parameters.max_time_ms,
            # No interrupt ends the conflict of an upsert with a document that is only about to be: see the fault.
            there=parameters.fault == "write-conflict" and not parameters.fault_option,
            warm=min(MOST_WARM, sharers * (most + 2)) if parameters.pool == "warm" else 1,
        )
