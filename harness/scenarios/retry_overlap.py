"""How many copies of one write do a driver's retries times an application's retries pile up on a server that stalls?

Consumers write each record of a topic as an application would, with the user's own settings; the server stalls until
they have given up, or as long as is asked. What was sent and what ran is counted, and held against the prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final, Literal

from pydantic import Field, model_validator

import faults
from clusters.cluster import Cluster, ServerInfo
from clusters.topology import Settings as ClusterSettings
from clusters.topology import Topology, sharded_cluster, single_replica_set
from faults.network import in_the_network
from faults.options import parse as parse_options
from harness import prediction
from harness.drivers import kinds, retries
from harness.drivers.clients import OptionValue, milliseconds, option, parse_driver_options
from harness.drivers.consumers import TOPIC, ConsumersPlan, in_group, names
from harness.drivers.kafka.settings import Rebalance
from harness.drivers.polling import Handling
from harness.measures import EXCEEDED, MAXIMUM, NO_OVERLAP, OVERLAP
from harness.prediction import Prediction, Server
from harness.prediction.settings import CONNECT_TIMEOUT
from harness.prediction.timeline import timeline
from harness.scenarios.parameters import Parameters, Seconds
from harness.schedule import Planned, pulses

OUTCOMES: Final = (MAXIMUM, OVERLAP, NO_OVERLAP, EXCEEDED)

LONGEST_BLOCK: Final = 20.0
"""Seconds that `fail-command` blocks at most: whoever heals waits for it."""
BLOCK_MARGIN: Final = 2.0
"""Seconds that a block outlasts the last execution of the application."""
RATE: Final = 20.0
"""Records a second where the fault goes on and off and nobody says how many."""
MOST_WARM: Final = 100
"""Connections of a pool, by the drivers' default (maxPoolSize)."""

ENGINE_HANGS: Final[Mapping[str, str]] = {
    "insert": "hangDuringBatchInsert",
    "update": "hangDuringBatchUpdate",
    "delete": "hangDuringBatchRemove",
    "findAndModify": "hangBeforeFindAndModifyPerformsUpdate",
}
"""Fail points inside the engine, behind the session's check-out, by the command that they hold."""


INTERRUPTIBLE: Final = frozenset({"lock-wait", "write-conflict", "no-tickets"})
"""Faults under which a write waits where it looks for interrupts."""
BEFORE_MAX_TIME: Final = frozenset({"fail-command", "freeze"})
"""Faults that hold a request, and its resend, before the server looks at its maxTimeMS."""
WITHOUT_CONFLICT: Final = frozenset({"insert", "bulk-ordered", "bulk-unordered", "w0"})
"""Kinds whose `_id` the driver draws."""
IN_ENGINE: Final = frozenset({"fail-point", "hang-in-yield"}) | INTERRUPTIBLE
"""Faults that hold each write inside the engine from the first one on."""


class OverlapParameters(Parameters):
    """Options of `retry-overlap`."""

    members: int = Field(1, ge=1, le=50, description="Members of the replica set, or of each shard.")
    shards: int = Field(0, ge=0, le=50, description="Shards; 0 is one replica set without router.")
    election_timeout: Seconds = Field(10.0, ge=0.5, le=600, description="Election timeout of the run's own cluster.")
    driver_option: list[str] = Field(
        default_factory=lambda: ["socketTimeoutMS=1000"],
        description="NAME=VALUE for the consumers' clients (may be repeated). [default: socketTimeoutMS=1000]",
    )
    fault: str = Field("fail-command", description="Fault on the member that is written to; 'none' for a run without.")
    fault_option: list[str] = Field(
        default_factory=list,
        description="NAME=VALUE for the fault (may be repeated); else the writes of the run are held by it.",
    )
    hold: Seconds | None = Field(
        None, gt=0, le=7200, description="How long the fault is held. [default: until all consumers have given up]"
    )
    release: Literal["heal", "kill-op"] = Field(
        "heal", description="What ends the hold: the fault is healed; or first the run's writes are killed."
    )
    every: Seconds | None = Field(
        None,
        gt=0,
        le=600,
        description="The fault goes on and off, about so often, as the seed has it, while records are produced.",
    )
    write: str = Field("insert", description=f"Kind of write: {', '.join(kinds.KINDS)}.")
    retry: str = Field("fixed(0s,3)", description="The application's retries, as fixed(1s,3) or spring-default.")
    seek_after_error: bool = Field(True, description="The consumer polls again between attempts; else it sleeps.")
    not_retryable: list[str] = Field(
        default_factory=list, description="Error class, code or name of a code that is not retried (may be repeated)."
    )
    consumers: int = Field(1, ge=1, le=200, description="Consumers, each with a client and a partition of its own.")
    records: int | None = Field(None, ge=1, le=1_000_000, description="Records. [default: one for each consumer]")
    rate: float | None = Field(
        None, gt=0, le=10_000, description="Records produced a second. [default: all at once; with --every 20]"
    )
    shared_client: bool = Field(False, description="One client for all consumers.")
    explicit_session: bool = Field(False, description="One session for all executions of a consumer.")
    write_concern: Literal["majority", "1"] = Field("majority", description="Write concern.")
    max_time: Seconds | None = Field(None, gt=0, description="maxTimeMS of each write, where the driver has it.")
    max_poll_records: int = Field(500, ge=1, description="Kafka's max.poll.records.")
    max_poll_interval: Seconds = Field(300.0, gt=0, description="Kafka's max.poll.interval.ms, as a duration.")
    session_timeout: Seconds = Field(45.0, gt=0, description="Kafka's session.timeout.ms, as a duration.")
    rebalance: Rebalance = Field("eager", description="How partitions are reassigned.")
    alarm_above: int = Field(1, ge=1, description="Copies of one write that may run at once without an alarm.")
    pool: Literal["warm", "cold"] = Field(
        "warm", description="Idle connections for all sends when the fault begins, or the first alone."
    )

    @model_validator(mode="after")
    def _consistent(self) -> OverlapParameters:
        if self.fault != "none":
            kind = faults.by_name(self.fault)
            if self.fault_option:
                parse_options(kind.name, kind.options, self.fault_option)
        elif self.fault_option:
            raise ValueError("--fault none: there is no fault for --fault-option")
        if self.release != "heal" and self.fault == "none":
            raise ValueError(f"--release {self.release}: without a fault nothing is held")
        self._alternating()
        kinds.kind(self.write).check(self.write_options(""))
        if self.fault == "write-conflict" and not self.fault_option and self.write in WITHOUT_CONFLICT:
            raise ValueError(
                f"--fault write-conflict: --write {self.write} makes a document of its own each time, with nothing "
                "to conflict with: expected another kind of write"
            )
        if self.fault == "hang-in-yield" and not kinds.kind(self.write).prepared:
            raise ValueError(f"--fault hang-in-yield: --write {self.write} does not go over many documents")
        options = parse_driver_options(self.driver_option)
        give_up = predicted(self, options).give_up
        if self.fault != "none" and self.hold is None and self.every is None and give_up is None:
            raise ValueError("with these settings nobody gives up: say with --hold how long the fault is held")
        if self.fault == "fail-command" and not self.fault_option and self.held(give_up) > LONGEST_BLOCK:
            raise ValueError(
                f"the writes must be held for {self.held(give_up):g} s, and fail-command blocks {LONGEST_BLOCK:g} s "
                "at most: expected shorter times, or --fault fail-point, which holds the writes inside the engine"
            )
        for one in self.expect:
            if one not in OUTCOMES:
                raise ValueError(f"--expect {one}: expected one of {', '.join(OUTCOMES)}")
        return self

    def _alternating(self) -> None:
        """Raises ValueError on what does not go with a fault that goes on and off."""
        if self.every is None:
            return
        if self.fault == "none":
            raise ValueError("--fault none: there is no fault for --every")
        if self.hold is not None:
            raise ValueError("--every: how long each fault is held is drawn; leave --hold out")
        if self.release != "heal":
            raise ValueError(f"--every: each fault is healed; leave --release {self.release} out")
        if not self.pulses("primary"):
            raise ValueError(
                f"--every {self.every:g} s: the records are produced within {self.production:g} s, before a fault has "
                "gone on and off; expected more records, a lower --rate, or a shorter --every"
            )

    @property
    def production(self) -> float:
        """Seconds from the first record that is produced to the last."""
        rate = self.records_a_second
        return 0.0 if rate is None else (self.produced - 1) / rate

    @property
    def records_a_second(self) -> float | None:
        """None: all at once."""
        return RATE if self.rate is None and self.every is not None else self.rate

    @property
    def produced(self) -> int:
        """How many records."""
        return self.records or self.consumers

    def pulses(self, on: str) -> list[Planned]:
        """When the fault is on, if it goes on and off."""
        return [] if self.every is None else pulses(self.seed, self.every, self.production, self.fault, on)

    def write_options(self, run: str) -> kinds.WriteOptions:
        """Of every write, but for the session itself."""
        return kinds.WriteOptions(
            run,
            1 if self.write_concern == "1" else "majority",
            session=True if self.explicit_session else None,
            max_time_ms=None if self.max_time is None else round(self.max_time * 1000),
        )

    def held(self, give_up: float | None) -> float:
        """Seconds that the writes must be held."""
        if self.every is not None:
            return self.every
        return (self.hold if self.hold is not None else give_up or 0.0) + BLOCK_MARGIN


def predicted(parameters: OverlapParameters, options: Mapping[str, OptionValue]) -> Prediction:
    """What follows from the settings on a server that does what the fault makes it do. Raises ValueError."""
    found = prediction.predict(
        prediction.Settings(
            policy=retries.parse(parameters.retry),
            write=prediction.WRITES[parameters.write],
            socket_timeout=milliseconds(options, "socketTimeoutMS"),
            connect_timeout=milliseconds(options, "connectTimeoutMS", CONNECT_TIMEOUT),
            timeout=milliseconds(options, "timeoutMS"),
            max_time=parameters.max_time,
            retry_writes=option(options, "retryWrites") is not False,
            explicit_session=parameters.explicit_session,
            consumers=parameters.consumers,
            max_poll_records=parameters.max_poll_records,
            max_poll_interval=parameters.max_poll_interval,
            session_timeout=parameters.session_timeout,
            server=_assumed(parameters),
        )
    )
    if parameters.fault not in BEFORE_MAX_TIME:
        return found
    return replace(found, timeline=timeline(replace(found.settings, max_time=None)))


def _assumed(parameters: OverlapParameters) -> Server:
    """What the server does while the fault acts."""
    options = " ".join(parameters.fault_option)
    if "errorCode" in options or "closeConnection" in options:
        return Server.REFUSES
    return Server.INTERRUPTIBLE if parameters.fault in {"pause-replication", *INTERRUPTIBLE} else Server.HANGS


class RetryOverlap:
    """The scenario; see the module."""

    name: ClassVar[str] = "retry-overlap"
    question: ClassVar[str] = "How many copies of one write do driver retries times application retries pile up?"
    model: ClassVar[type[Parameters]] = OverlapParameters

    def __init__(self, parameters: OverlapParameters) -> None:
        self.parameters = parameters
        self.options = parse_driver_options(parameters.driver_option)
        self.prediction = predicted(parameters, self.options)
        self.kind = kinds.kind(parameters.write)

    def topology(self) -> Topology:
        settings = ClusterSettings(election_timeout_ms=round(self.parameters.election_timeout * 1000))
        if not self.parameters.shards:
            return single_replica_set(self.parameters.members, settings=settings)
        return sharded_cluster(self.parameters.shards, self.parameters.members, settings=settings)

    def proxied(self) -> bool:
        """Always: the proxy's tap is what counts the sends."""
        return True

    def suits(self, cluster: Cluster) -> str | None:
        if cluster.proxy is None and in_the_network(self.parameters.fault):
            return f"{self.parameters.fault} needs a proxy before every node (mongofault up --proxied)"
        return None

    def expected(self, server: ServerInfo) -> frozenset[str]:
        """By the prediction, where the server does from the first send on what is assumed of it."""
        if self.parameters.expect:
            return frozenset(self.parameters.expect)
        fault, hold = self.parameters.fault, self.parameters.hold
        if self.parameters.every is not None:
            return frozenset({MAXIMUM, OVERLAP, NO_OVERLAP})
        if fault in ("none", "swallow"):
            return frozenset({NO_OVERLAP})
        if fault not in {"fail-command", *IN_ENGINE} or (fault == "fail-command" and self.parameters.fault_option):
            return frozenset({MAXIMUM, OVERLAP, NO_OVERLAP})
        course, most = self.prediction.timeline, self.prediction.bounds
        if hold is not None and (course.give_up is None or hold < course.give_up):
            return frozenset({OVERLAP, NO_OVERLAP})
        if most.sends is None or course.sends is None:
            return frozenset({NO_OVERLAP, OVERLAP, EXCEEDED})
        if course.copies <= 1:
            return frozenset({NO_OVERLAP})
        return frozenset({MAXIMUM if (course.sends, course.copies) == (most.sends, most.copies) else OVERLAP})

    def fault_options(self, namespace: str, sharded: bool) -> list[str]:
        """Those given; else what makes the fault hold the writes of the run, and nothing else."""
        given, fault, command = self.parameters.fault_option, self.parameters.fault, self.kind.command
        if given:
            return given
        if fault == "fail-command":
            block = round(self.parameters.held(self.prediction.give_up) * 1000)
            routed = ["failInternalCommands=yes"] if sharded else []
            return [f"commands={command}", f"blockTimeMS={block}", "namespace=watched", *routed]
        if fault == "fail-point":
            data = f'{{"nss":"{namespace}"}}' if command == "insert" else "{}"
            return [f"point={ENGINE_HANGS[command]}", f"data={data}"]
        if fault == "write-conflict" and self.kind.name == "insert-business-id":
            consumers = self.parameters.consumers
            return [f"ids={','.join(names(TOPIC, consumers, self.parameters.records or consumers))}"]
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
            driver_options=self.options,
            shared_client=parameters.shared_client,
            explicit_session=parameters.explicit_session,
            write_concern=1 if parameters.write_concern == "1" else "majority",
            max_time_ms=None if parameters.max_time is None else round(parameters.max_time * 1000),
            # No interrupt ends the conflict of an upsert with a document that is only about to be: see the fault.
            there=parameters.fault == "write-conflict" and not parameters.fault_option,
            warm=min(MOST_WARM, sharers * (most + 2)) if parameters.pool == "warm" else 1,
        )
