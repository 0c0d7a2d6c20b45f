"""`step-down`: the primary steps down and another is elected; what is held is that another one is the primary.

Writes under way fail with a retryable error. For `seconds` it is not elected again, until the heal ends that; who is
the primary then the set decides, by priorities, an election timeout later. Proven by another that says it is writable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from clusters.cluster import primary_of
from clusters.errors import ClusterError
from clusters.guard import EndStepDown, Undo
from clusters.guard.commands import NOT_SECONDARY
from clusters.member import Member
from clusters.wire.connection import CommandFailed
from faults.base import Evidence, HealFailed, Site, Unproven, register
from faults.configuration import Configuration
from faults.direct import FAILURES, Direct, ask
from faults.options import Options

CATCH_UP: Final = 10
"""Seconds that it waits for another to catch up, the server's own default, before it refuses."""
PROOF_DEADLINE = 30.0
"""Seconds until another must be the primary; milliseconds where one has caught up, by default two elections at most."""
POLL = 0.05


class StepDownOptions(Options):
    """Options of `step-down`."""

    seconds: int = Field(default=60, gt=0, le=7200, description="For how long it does not stand for election again.")


@register
class StepDown:
    """Let a primary step down; see the module."""

    name: ClassVar[str] = "step-down"
    options: ClassVar[type[Options]] = StepDownOptions
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "the primary of a set in which another can be elected"
    proven_by: ClassVar[str] = "another member that says it is the writable primary"
    healed_by: ClassVar[str] = "replSetFreeze 0: it may be elected again"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._cluster = site.cluster
        self._seconds = (options or StepDownOptions()).seconds
        self._configuration = Configuration(site)
        self._successor: Member | None = None

    async def available(self) -> str | None:
        if reason := await self._configuration.obstacle(primary=True):
            return reason
        if not (await ask(self.target, {"hello": 1})).get("isWritablePrimary"):
            return f"{self.target.name} is not the primary of {self._configuration.set_name}"
        members = await self._configuration.members()
        if not any(one["priority"] > 0 for host, one in members.items() if host != self.target.host):
            return f"no other member of {self._configuration.set_name} can be elected"
        return None

    def undo(self) -> Sequence[Undo]:
        return [EndStepDown(self.target.host)]

    async def inject(self) -> None:
        catch_up = min(CATCH_UP, self._seconds)
        command = {"replSetStepDown": self._seconds, "secondaryCatchUpPeriodSecs": catch_up}
        await ask(self.target, command, deadline=2.0 * CATCH_UP)

    async def proof(self) -> Evidence:
        begin = time.monotonic()
        while time.monotonic() < begin + PROOF_DEADLINE:
            if await self.active():
                assert self._successor is not None
                return Evidence(
                    f"{self._successor.name} says that it is the writable primary, {self.target.name} that it is not",
                    {"primary": self._successor.name, "seconds": round(time.monotonic() - begin, 3)},
                )
            await asyncio.sleep(POLL)
        raise Unproven(f"no other member is the primary {PROOF_DEADLINE:g} s after {self.target.name} was to step down")

    async def active(self) -> bool:
        try:
            self._successor = await primary_of(self._cluster, self._configuration.set_name)
            own = await ask(self.target, {"hello": 1})
        except ClusterError:
            return False
        return self._successor is not self.target and not own.get("isWritablePrimary")

    async def heal(self) -> None:
        if not self.target.running():
            return
        server = Direct(self.target.host)
        try:
            await server.command({"replSetFreeze": 0})
        except FAILURES as error:
            # Said by the primary, which it is again.
            primary = isinstance(error, CommandFailed) and error.code == NOT_SECONDARY
            if not primary and self.target.running():
                raise HealFailed(f"{self.target.name} cannot be let stand for election again: {error}") from error
        finally:
            server.close()
