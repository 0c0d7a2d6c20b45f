"""`bandwidth`: no more bytes pass on the way to a node than so many a second; as on a thin line, or a full one.

All connections that are struck share them. Proven by a probe whose long answer takes the time that it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from clusters.wire.proxy.client import Direction, Kind, Rule
from faults.base import Unproven, register
from faults.network import ANSWER, NetworkFault, Probe, SourceOptions
from faults.options import Options

MOST = 8_000_000
"""Bytes of a probe; a message may have 48 MB."""


class BandwidthOptions(SourceOptions):
    """Options of `bandwidth`."""

    bytes_per_second: float = Field(default=100_000.0, ge=1, le=1e9, description="Bytes a second in each direction.")
    direction: Literal["both", "to"] = Field(default="both", description="Requests, or replies too.")


@register
class Bandwidth(NetworkFault):
    """Make the line to one node thin; see the module."""

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
