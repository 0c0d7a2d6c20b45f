"""`latency`: everything on the way to a node comes later, in order; as on a long or a full line.

By `ms` in each direction that is named, give or take up to `jitter`. By the proxy, or by the kernel at both ends of a
container's line (tc-netem(8)), where it has netem. Proven by a probe that takes as much longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from clusters.member import Member
from clusters.wire.proxy.client import Direction, Kind, Rule
from faults.base import Fault, Unproven, register
from faults.either import ByOptions, Either
from faults.network import ANSWER, MessageOptions, NetworkFault, Probe
from faults.options import Options
from faults.shaping import ShapingFault

PROBES = 3
QUEUE = 100_000
"""Packets that are held up at a time: ten thousand a second for ten seconds."""


class LatencyOptions(MessageOptions, ByOptions):
    """Options of `latency`."""

    ms: float = Field(default=100.0, gt=0, le=600_000, description="Milliseconds later, in each direction.")
    jitter: float = Field(default=0.0, ge=0, le=600_000, description="Up to so many milliseconds more or less.")
    direction: Literal["both", "to", "from"] = Field(default="both", description="Requests, replies, or both.")


def longer(target: Member, given: LatencyOptions, took: float, ways: int) -> str:
    """That an answer took as much longer as it must, by so many ways that are delayed. Raises Unproven."""
    least = ways * max(0.0, given.ms - given.jitter) / 1000
    if took < least:
        raise Unproven(f"an answer of {target.name} takes {took:.3f} s, expected {least:.3f} s or more")
    return f"an answer of {target.name} takes {took:.3f} s"


class LatencyByProxy(NetworkFault):
    """By a rule of the proxy."""

    name: ClassVar[str] = "latency"
    options: ClassVar[type[Options]] = LatencyOptions
    spares_health: ClassVar[bool] = True

    def rules(self) -> Sequence[Rule]:
        given: LatencyOptions = self.given
        direction = Direction(given.direction)
        return [self.rule(Kind.LATENCY, direction=direction, ms=given.ms, jitter_ms=given.jitter)]

    async def effect(self, probe: Probe) -> str:
        given: LatencyOptions = self.given
        took = min([await probe.ask(ANSWER + 4 * given.ms / 1000) for _ in range(PROBES)])
        return longer(self.target, given, took, 2 if given.direction == "both" else 1)


class LatencyByKernel(ShapingFault):
    """By netem at either end of a container's line."""

    name: ClassVar[str] = "latency"
    options: ClassVar[type[Options]] = LatencyOptions
    otherwise: ClassVar[str] = "; a proxy does it, up --proxied"

    @property
    def discipline(self) -> Sequence[str]:
        jitter = [f"{self.given.jitter:g}ms"] if self.given.jitter else []
        return ("netem", "limit", str(QUEUE), "delay", f"{self.given.ms:g}ms", *jitter)

    @property
    def size(self) -> int:
        """One packet."""
        return 64

    @property
    def patience(self) -> float:
        return float(4 * (self.given.ms + self.given.jitter) / 1000)

    def effect(self, took: float, ways: int) -> str:
        return longer(self.target, self.given, took, ways)


@register
class Latency(Either):
    """Delay what is sent to one node; see the module."""

    name: ClassVar[str] = "latency"
    options: ClassVar[type[Options]] = LatencyOptions
    spares_health: ClassVar[bool] = True
    proven_by: ClassVar[str] = "a probe that takes as much longer, and the count of the proxy or the kernel"
    rather_by_proxy: ClassVar[bool] = True
    by_proxy: ClassVar[type[Fault]] = LatencyByProxy
    by_kernel: ClassVar[type[Fault]] = LatencyByKernel
