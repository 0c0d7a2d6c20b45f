"""Parameters of `retry-overlap`: what they are, what does not go together, and what is predicted of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal

from pydantic import Field, model_validator

import faults
from faults import fail_command
from faults.options import parse as parse_options
from harness import prediction
from harness.drivers import kinds, retries
from harness.drivers.clients import OptionValue, milliseconds, option, parse_driver_options
from harness.drivers.kafka.settings import Rebalance
from harness.measures import EXCEEDED, MAXIMUM, NO_OVERLAP, OVERLAP, ended_by_max_time
from harness.prediction import Prediction
from harness.prediction.settings import CONNECT_TIMEOUT
from harness.prediction.timeline import timeline
from harness.scenarios.overlap_faults import BEFORE_MAX_TIME, MUTE, assumed
from harness.scenarios.parameters import Parameters, Seconds
from harness.schedule import Planned, pulses

OUTCOMES: Final = (MAXIMUM, OVERLAP, NO_OVERLAP, EXCEEDED)

LONGEST_BLOCK: Final = fail_command.LONGEST_BLOCK / 1000
"""Seconds that `fail-command` blocks at most."""
BLOCK_MARGIN: Final = 2.0
"""Seconds that a block outlasts the last execution of the application."""
RATE: Final = 20.0
"""Records a second where the fault goes on and off and nobody says how many."""


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
    max_time: Seconds | None = Field(None, ge=0.001, description="maxTimeMS of each write, where the driver has it.")
    max_poll_records: int = Field(500, ge=1, description="Kafka's max.poll.records.")
    max_poll_interval: Seconds = Field(300.0, ge=0.001, description="Kafka's max.poll.interval.ms, as a duration.")
    session_timeout: Seconds = Field(45.0, ge=0.001, description="Kafka's session.timeout.ms, as a duration.")
    rebalance: Rebalance = Field("eager", description="How partitions are reassigned.")
    alarm_above: int = Field(1, ge=1, description="Copies of one write that may run at once without an alarm.")
    pool: Literal["warm", "cold"] = Field(
        "warm", description="Idle connections for all sends when the fault begins, or the first alone."
    )

    @model_validator(mode="after")
    def _fault(self) -> OverlapParameters:
        """The fault, with what it is told and how it ends."""
        if self.fault != "none":
            kind = faults.by_name(self.fault)
            if self.fault_option:
                parse_options(kind.name, kind.options, self.fault_option)
        elif self.fault_option:
            raise ValueError("--fault none: there is no fault for --fault-option")
        elif self.release != "heal":
            raise ValueError(f"--release {self.release}: without a fault nothing is held")
        if self.release == "kill-op" and self.fault in MUTE:
            raise ValueError(f"--release kill-op: under {self.fault} the member takes no command; expected heal")
        return self

    @model_validator(mode="after")
    def _alternating(self) -> OverlapParameters:
        """A fault that goes on and off."""
        if self.every is None:
            return self
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
        return self

    @model_validator(mode="after")
    def _write(self) -> OverlapParameters:
        """The kind of write, with the rest and with the fault."""
        kind = kinds.kind(self.write)
        kind.check(session=self.explicit_session, max_time=self.max_time is not None)
        if self.fault == "write-conflict" and not self.fault_option and kind.drawn_id:
            raise ValueError(
                f"--fault write-conflict: --write {self.write} makes a document of its own each time, with nothing "
                "to conflict with: expected another kind of write"
            )
        if self.fault == "hang-in-yield" and not kind.prepared:
            raise ValueError(f"--fault hang-in-yield: --write {self.write} does not go over many documents")
        return self

    @model_validator(mode="after")
    def _given_up(self) -> OverlapParameters:
        """How long the writes must be held."""
        give_up = self.prediction.give_up
        if self.fault != "none" and self.hold is None and self.every is None and give_up is None:
            raise ValueError("with these settings nobody gives up: say with --hold how long the fault is held")
        if self.fault == "fail-command" and not self.fault_option and self.held > LONGEST_BLOCK:
            raise ValueError(
                f"the writes must be held for {self.held:g} s, and fail-command blocks {LONGEST_BLOCK:g} s "
                "at most: expected shorter times, or --fault fail-point, which holds the writes inside the engine"
            )
        return self

    @model_validator(mode="after")
    def _expected(self) -> OverlapParameters:
        for one in self.expect:
            if one not in OUTCOMES:
                raise ValueError(f"--expect {one}: expected one of {', '.join(OUTCOMES)}")
        return self

    @property
    def driver_options(self) -> Mapping[str, OptionValue]:
        """Those of `driver_option`, by name."""
        return parse_driver_options(self.driver_option)

    @property
    def max_time_ms(self) -> int | None:
        return None if self.max_time is None else round(self.max_time * 1000)

    @property
    def produced(self) -> int:
        """How many records."""
        return self.records or self.consumers

    @property
    def records_a_second(self) -> float | None:
        """None: all at once."""
        return RATE if self.rate is None and self.every is not None else self.rate

    @property
    def production(self) -> float:
        """Seconds from the first record that is produced to the last."""
        rate = self.records_a_second
        return 0.0 if rate is None else (self.produced - 1) / rate

    def pulses(self, on: str) -> list[Planned]:
        """When the fault is on, if it goes on and off."""
        return [] if self.every is None else pulses(self.seed, self.every, self.production, self.fault, on)

    @property
    def held(self) -> float:
        """Seconds that the writes must be held."""
        if self.every is not None:
            return self.every
        return (self.hold if self.hold is not None else self.prediction.give_up or 0.0) + BLOCK_MARGIN

    @cached_property
    def prediction(self) -> Prediction:
        """What follows from the settings on a server that does what the fault makes it do. Raises ValueError."""
        options = self.driver_options
        found = prediction.predict(
            prediction.Settings(
                policy=retries.parse(self.retry),
                write=prediction.WRITES[self.write],
                socket_timeout=milliseconds(options, "socketTimeoutMS"),
                connect_timeout=milliseconds(options, "connectTimeoutMS", CONNECT_TIMEOUT),
                timeout=milliseconds(options, "timeoutMS"),
                max_time=self.max_time,
                retry_writes=option(options, "retryWrites") is not False,
                explicit_session=self.explicit_session,
                consumers=self.consumers,
                max_poll_records=self.max_poll_records,
                max_poll_interval=self.max_poll_interval,
                session_timeout=self.session_timeout,
                seek_after_error=self.seek_after_error,
                server=assumed(self.fault, self.fault_option),
            )
        )
        max_time = self.max_time
        if self.fault in BEFORE_MAX_TIME:
            max_time = None
        elif self.fault == "no-tickets" and max_time is not None:
            max_time = ended_by_max_time(max_time)
        if max_time == self.max_time:
            return found
        return replace(found, timeline=timeline(replace(found.settings, max_time=max_time)))
