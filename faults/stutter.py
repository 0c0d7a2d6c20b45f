"""`stutter`: a member stopped for a share of each period, so that it works, but in fits; as on a machine too full.

SIGSTOP and SIGCONT in turn. Connections stay, heartbeats come late, nothing is ever lost. Proven by the process state,
seen stopped and seen at work, period after period.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from pydantic import Field

from clusters.guard import Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.options import Options

PERIODS = 3
"""How many periods the proof looks at."""
LOOKS = 20
"""Looks at the process state in a period."""
SLACK = 2.0
"""Seconds that a stop may be late on a busy machine."""


class StutterOptions(Options):
    """Options of `stutter`."""

    share: float = Field(default=0.5, gt=0, lt=1, description="For which share of the time it is stopped.")
    period: float = Field(default=1.0, ge=0.05, le=60, description="Seconds from one stop to the next.")


@register
class Stutter:
    """Stop one member again and again; see the module."""

    name: ClassVar[str] = "stutter"
    options: ClassVar[type[Options]] = StutterOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process of this machine"
    proven_by: ClassVar[str] = "process state T and not T in turn, as the kernel says"
    healed_by: ClassVar[str] = "SIGCONT, and the state is T no more"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        options = options or StutterOptions()
        self.target = site.target
        self._share, self._period = options.share, options.period
        self._task: asyncio.Task[None] | None = None
        self._stopped_at = 0.0

    async def available(self) -> str | None:
        return process.obstacle(self.target) or process.contained(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.go_on(self.target)]

    async def inject(self) -> None:
        self._task = asyncio.create_task(self._stutter())

    async def proof(self) -> Evidence:
        seen: list[bool] = []
        end = time.monotonic() + PERIODS * self._period + SLACK
        while time.monotonic() < end:
            seen.append(self.target.frozen())
            turns = sum(before != after for before, after in itertools.pairwise(seen))
            if len(seen) >= PERIODS * LOOKS and turns >= 2 * PERIODS - 2:
                share = sum(seen) / len(seen)
                return Evidence(
                    f"process of {self.target.name} was in state T in {share:.0%} of {len(seen)} looks, "
                    f"in and out of it {turns} times",
                    {"share": round(share, 3), "looks": len(seen), "turns": turns},
                )
            await asyncio.sleep(self._period / LOOKS)
        raise Unproven(f"{self.target.name} is not stopped and let go in turn: {sum(seen)} of {len(seen)} looks in T")

    async def active(self) -> bool:
        stuttering = self._task is not None and not self._task.done()
        return stuttering and time.monotonic() - self._stopped_at < 2 * self._period + SLACK

    async def heal(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await process.thawed(self.target)

    async def _stutter(self) -> None:
        """Until it is cancelled. A stop counts when the kernel says so."""
        while True:
            begin = time.monotonic()
            self.target.freeze()
            if await process.comes(self.target.frozen, self._period):
                self._stopped_at = time.monotonic()
            await _until(begin + self._share * self._period)
            self.target.thaw()
            await _until(begin + self._period)


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
