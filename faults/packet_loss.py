"""`packet-loss`: each packet of a container is lost with the same probability; as on a bad line.

TCP sends it again, a fifth of a second later and then ever later: all goes on, in fits. By iptables in the container's
network namespace. Proven by the kernel's count of the packets that it dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from faults.base import Evidence, Unproven, register
from faults.direct import FAILURES, Direct
from faults.filtering import FilteringFault
from faults.options import Options

PROOF_DEADLINE: Final = 20.0
"""Seconds in which enough must have been dropped."""
DROPPED: Final = 3
ANSWER: Final = 1.0
"""Seconds until an answer is not waited for any more, and the next is asked on a connection of its own."""


class PacketLossOptions(Options):
    """Options of `packet-loss`."""

    share: float = Field(default=0.1, ge=0.001, le=1, description="Of all packets.")
    direction: Literal["both", "to", "from"] = Field(default="both", description="To it, from it, or both.")


@register
class PacketLoss(FilteringFault):
    """See the module."""

    name: ClassVar[str] = "packet-loss"
    options: ClassVar[type[Options]] = PacketLossOptions
    spares_health: ClassVar[bool] = True
    proven_by: ClassVar[str] = "the kernel's count of the packets that it dropped"

    def rules(self) -> Sequence[str]:
        lost = f"-m statistic --mode random --probability {self.given.share:.6f}"
        ways = {"to": [f"-i {self.device}"], "from": [f"-o {self.device}"]}
        chosen = ways.get(self.given.direction, [one for way in ways.values() for one in way])
        return [f"{one} {lost}" for one in chosen]

    async def proof(self) -> Evidence:
        talking = asyncio.create_task(self._talk())
        end = time.monotonic() + PROOF_DEADLINE
        try:
            while time.monotonic() < end:
                seen, dropped = await self.tried(self.counted)
                if dropped and all(one >= DROPPED for one in dropped):
                    return Evidence(
                        f"the kernel dropped {sum(dropped)} of {seen} packets of {self.target.name}, "
                        f"{self.given.share:g} being its share",
                        {"dropped": sum(dropped), "packets": seen, "chain": self.chain},
                    )
        finally:
            talking.cancel()
            with suppress(asyncio.CancelledError):
                await talking
        raise Unproven(f"of {seen} packets of {self.target.name} the kernel dropped {sum(dropped)}")

    async def _talk(self) -> Any:
        """Small questions, one after the other, for packets that can be lost."""
        server = Direct(self.target.host)
        try:
            while True:
                with suppress(*FAILURES):
                    await server.command({"hello": 1}, deadline=ANSWER)
        finally:
            server.close()
