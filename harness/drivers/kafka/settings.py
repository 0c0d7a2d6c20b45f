"""What a consumer group is set to, under Kafka's names, with Kafka's units and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OffsetReset = Literal["earliest", "latest", "none"]
Rebalance = Literal["eager", "cooperative"]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The consumers' settings, the same for all of a group; times in milliseconds. Raises ValueError.

    `max_poll_interval_ms`: a consumer that does not poll for so long leaves the group. `session_timeout_ms`: one whose
    heartbeats stay away for so long is removed from it. `auto_offset_reset`: where reading begins while nothing is
    committed. `rebalance` is what `partition.assignment.strategy` comes to: eager is RangeAssignor's, cooperative
    CooperativeStickyAssignor's. `group_initial_rebalance_delay_ms` is the broker's: how long an empty group waits for
    more members.
    """

    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    auto_offset_reset: OffsetReset = "latest"
    rebalance: Rebalance = "eager"
    group_initial_rebalance_delay_ms: int = 3_000

    def __post_init__(self) -> None:
        for name in ("max_poll_records", "max_poll_interval_ms", "session_timeout_ms", "heartbeat_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name.replace('_', '.')}: expected at least 1, found {getattr(self, name)}")
        if self.group_initial_rebalance_delay_ms < 0:
            raise ValueError(
                f"group.initial.rebalance.delay.ms: expected at least 0, found {self.group_initial_rebalance_delay_ms}"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms: expected below session.timeout.ms={self.session_timeout_ms},"
                f" found {self.heartbeat_interval_ms}"
            )
