"""`isolate-primary`: a primary that the others of its set cannot reach, nor it them, while clients can.

It goes on as primary until it misses a majority; the others elect another an election timeout later. Proven like a
partition, and by another member that says it is the writable primary.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from clusters.cluster import of_set
from clusters.member import Member
from faults.base import Site, Unproven, register
from faults.direct import NoAnswer, ask
from faults.network import Probe
from faults.options import Options
from faults.partition import PartitionByProxy, PartitionOptions

ELECTED = 45.0
"""Seconds until another must be the primary: the election timeout, 10 s by default, and a burdened machine."""
POLL = 0.1


@register
class IsolatePrimary(PartitionByProxy):
    """See the module."""

    name: ClassVar[str] = "isolate-primary"
    options: ClassVar[type[Options]] = Options
    needs: ClassVar[str] = "the primary of a set, with a proxy before it (up --proxied)"
    proven_by: ClassVar[str] = "a partition, and another member that says it is the writable primary"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, options: Any = None) -> None:
        super().__init__(site, PartitionOptions())

    async def available(self) -> str | None:
        if not await self._is_primary(self.target):
            return f"{self.target.name} is not the primary of {self.target.spec.set_name}"
        return await super().available()

    async def effect(self, probe: Probe) -> str:
        seen = await super().effect(probe)
        end = time.monotonic() + ELECTED
        while time.monotonic() < end:
            for one in of_set(self.cluster, self.target.spec.set_name):
                if one is not self.target and await self._is_primary(one):
                    return f"{seen}; {one.name} says that it is the writable primary"
            await asyncio.sleep(POLL)
        raise Unproven(f"nobody else of {self.target.spec.set_name} is the primary {ELECTED:g} s later")

    async def _is_primary(self, member: Member) -> bool:
        try:
            return bool((await ask(member, {"hello": 1})).get("isWritablePrimary"))
        except NoAnswer:
            return False
