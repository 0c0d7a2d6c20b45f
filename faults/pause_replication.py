"""`pause-replication`: a secondary that applies nothing more, and otherwise is in the best of health.

It answers hello, heartbeats and plain reads; a read that must see a newer time waits, and a post-image lookup is one.
Proven by a lag that grows, as the primary sees it, and by what the server says of the means.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bson.timestamp import Timestamp
from pydantic import Field

from clusters.cluster import primary_of
from clusters.guard import Undo
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import Direct
from faults.failpoint import FailPoint
from faults.fsync_lock import FsyncLock
from faults.means import Means
from faults.options import Options

PROOF_DEADLINE = 20.0
"""Seconds until the lag must be seen to grow. It takes two or three: optimes have whole seconds, and without traffic
the primary's moves with the no-op writer."""
GROWN = 2
"""How often the lag must have grown with nothing applied; once it grows by chance, between a write and its arrival."""
POLL = 0.1


class PauseOptions(Options):
    """Options of `pause-replication`."""

    how: Literal["rsSyncApplyStop", "stopReplProducer", "fsyncLock"] = Field(
        default="rsSyncApplyStop",
        description="Fail point that stops applying, fail point that stops fetching, or fsyncLock.",
    )


@dataclass(frozen=True, slots=True)
class _Lag:
    """The target's last operation as the primary sees it, and by how many seconds its own is newer."""

    applied: Timestamp
    seconds: float


@register
class PauseReplication:
    """Stop one secondary's replication; see the module."""

    name: ClassVar[str] = "pause-replication"
    options: ClassVar[type[Options]] = PauseOptions
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a secondary; with enableTestCommands=1 but for fsyncLock"
    proven_by: ClassVar[str] = "a lag that grows, as the primary sees it, and the server's own word of the means"
    healed_by: ClassVar[str] = "the fail point off or fsyncUnlock, and seen to be off"
    aim: ClassVar[str] = "secondary"

    def __init__(self, site: Site, options: Any = None) -> None:
        how = (options or PauseOptions()).how
        self.target = site.target
        self._cluster = site.cluster
        self._means: Means = FsyncLock(site.target.host) if how == "fsyncLock" else FailPoint(site.target.host, how)

    async def available(self) -> str | None:
        return await means.no_secondary(self.target) or await means.obstacle(self.target, self._means)

    def undo(self) -> Sequence[Undo]:
        return [self._means.undo()]

    async def inject(self) -> None:
        await self._means.on()

    async def proof(self) -> Evidence:
        primary = await primary_of(self._cluster, self.target.spec.set_name)
        server = Direct(primary.host)
        end = time.monotonic() + PROOF_DEADLINE
        try:
            lags = [await self._lag(server)]
            while time.monotonic() < end:
                lag, taken = await self._lag(server), await self._means.taken()
                if lag.applied != lags[0].applied:
                    # What it had fetched before, it may still apply.
                    lags = [lag]
                elif lag.seconds > lags[-1].seconds:
                    lags.append(lag)
                if len(lags) > GROWN and taken is not None:
                    grown = [one.seconds for one in lags]
                    return Evidence(
                        f"{self.target.name} falls behind: {grown[0]:g} s, then {grown[-1]:g} s behind {primary.name}, "
                        f"as that one sees it; {taken}",
                        {"lag": grown, "means": str(self._means), "taken": taken},
                    )
                await asyncio.sleep(POLL)
        finally:
            server.close()
        raise Unproven(
            f"{self.target.name} does not fall behind {primary.name} within {PROOF_DEADLINE:g} s of {self._means}"
        )

    async def active(self) -> bool:
        return await means.acts(self._means)

    async def heal(self) -> None:
        await means.switch_off(self.target, self._means)

    async def _lag(self, primary: Direct) -> _Lag:
        members = (await primary.command({"replSetGetStatus": 1}))["members"]
        own = next(one for one in members if one.get("self"))
        its = next(one for one in members if one["name"] == self.target.host)
        return _Lag(its["optime"]["ts"], (own["optimeDate"] - its["optimeDate"]).total_seconds())
