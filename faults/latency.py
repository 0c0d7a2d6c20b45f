"""`latency`: everything on the way to a node comes later, in order; as on a long or a full line.

By `ms` in each direction that is named, give or take up to `jitter`. Proven by a probe that takes as much longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from clusters.wire.proxy.client import Direction, Kind, Rule
from faults.base import Unproven, register
from faults.network import ANSWER, MessageOptions, NetworkFault, Probe
from faults.options import Options

PROBES = 3


class LatencyOptions(MessageOptions):
    """Options of `latency`."""

    ms: float = Field(default=100.0, gt=0, le=600_000, description="Milliseconds later, in each direction.")
    jitter: float = Field(default=0.0, ge=0, le=600_000, description="Up to so many milliseconds more or less.")
    direction: Literal["both", "to", "from"] = Field(default="both", description="Requests, replies, or both.")


@register
class Latency(NetworkFault):
    """Delay what is sent to one node; see the module."""

    name: ClassVar[str] = "latency"
    options: ClassVar[type[Options]] = LatencyOptions
    spares_health: ClassVar[bool] = True

    def rules(self) -> Sequence[Rule]:
        given: LatencyOptions = self.given
        direction = Direction(given.direction)
        return [self.rule(Kind.LATENCY, direction=direction, ms=given.ms, jitter_ms=given.jitter)]

    async def effect(self, probe: Probe) -> str:
        given: LatencyOptions = self.given
        ways = 2 if given.direction == "both" else 1
        least = ways * max(0.0, given.ms - given.jitter) / 1000
        took = min([await probe.ask(ANSWER + 4 * given.ms / 1000) for _ in range(PROBES)])
        if took < least:
            raise Unproven(f"an answer of {self.target.name} takes {took:.3f} s, expected {least:.3f} s or more")
        return f"an answer of {self.target.name} takes {took:.3f} s"
