"""`bandwidth`: no more bytes pass on the way to a node than so many a second; as on a thin line, or a full one.

All connections that are struck share them. By the proxy, proven by a probe whose long answer takes the time that it
must; or by the kernel at both ends of a container's line (tc-tbf(8)), proven by such a message and the kernel's counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from clusters.wire.proxy.client import Direction, Kind, Rule
from faults.base import Fault, Unproven, register
from faults.either import ByOptions, Either
from faults.network import ANSWER, NetworkFault, Probe, SourceOptions
from faults.options import Options
from faults.shaping import LONGEST, ShapingFault

MOST = 8_000_000
"""Bytes of a probe; a message may have 48 MB."""
BURST = 16_000
"""Bytes that may pass at once: ten packets, or what a hundredth of a second's worth is."""
QUEUE = 65_536
"""Bytes that wait before packets are lost, or half a second's worth: what one message of TCP may be at a time."""


class BandwidthOptions(SourceOptions, ByOptions):
    """Options of `bandwidth`."""

    bytes_per_second: float = Field(default=100_000.0, ge=1, le=1e9, description="Bytes a second in each direction.")
    direction: Literal["both", "to"] = Field(default="both", description="Requests, or replies too.")


class BandwidthByProxy(NetworkFault):
    """By a rule of the proxy."""

    name: ClassVar[str] = "bandwidth"
    options: ClassVar[type[Options]] = BandwidthOptions
    spares_health: ClassVar[bool] = True

    def rules(self) -> Sequence[Rule]:
        given: BandwidthOptions = self.given
        direction = Direction(given.direction)
        return [self.rule(Kind.BANDWIDTH, direction=direction, bytes_per_second=given.bytes_per_second)]

    async def effect(self, probe: Probe) -> str:
        """Of two seconds' worth the second is not let through at once."""
        rate: float = self.given.bytes_per_second
        size = min(MOST, int(2 * rate))
        took = await probe.ask(ANSWER + 10 * size / rate, comment="x" * size)
        if took < size / rate / 4:
            raise Unproven(f"{size} bytes to {self.target.name} and back take {took:.3f} s at {rate:g} a second")
        return f"{size} bytes to {self.target.name} take {took:.2f} s"


class BandwidthByKernel(ShapingFault):
    """By a token bucket at either end of a container's line."""

    name: ClassVar[str] = "bandwidth"
    options: ClassVar[type[Options]] = BandwidthOptions

    @property
    def discipline(self) -> Sequence[str]:
        rate = max(1, round(self.given.bytes_per_second))
        burst, limit = max(BURST, rate // 100), max(QUEUE, rate // 2)
        return ("tbf", "rate", f"{rate}bps", "burst", str(burst), "limit", str(limit))

    @property
    def size(self) -> int:
        return min(LONGEST, max(2 * BURST, int(self.given.bytes_per_second)))

    @property
    def patience(self) -> float:
        return float(10 * self.size / self.given.bytes_per_second)

    def effect(self, took: float, ways: int) -> str:
        """It all has to pass, save what passes at once; by both ways one after the other."""
        least = ways * (self.size - max(BURST, self.given.bytes_per_second / 100)) / self.given.bytes_per_second
        if took < least or took < 2 * self.before:
            raise Unproven(
                f"{self.size} bytes to {self.target.name} and back take {took:.3f} s, expected {least:.3f} s or more, "
                f"and {self.before:.3f} s before"
            )
        return f"{self.size} bytes to {self.target.name} and back take {took:.2f} s"


@register
class Bandwidth(Either):
    """Make the line to one node thin; see the module."""

    name: ClassVar[str] = "bandwidth"
    options: ClassVar[type[Options]] = BandwidthOptions
    spares_health: ClassVar[bool] = True
    proven_by: ClassVar[str] = "a long message that takes the time it must, and the count of the proxy or the kernel"
    by_proxy: ClassVar[type[Fault]] = BandwidthByProxy
    by_kernel: ClassVar[type[Fault]] = BandwidthByKernel
