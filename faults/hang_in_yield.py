"""`hang-in-yield`: what goes over many documents of the watched namespace hangs between two of them.

What it has done until then is there for everybody to see, the rest is not. Nothing interrupts the hang; what was killed
meanwhile ends with it and leaves the rest undone. The server yields once in so many steps, and the fault makes it
do so more often. Proven by the fail point's count, which must grow; with proof=on by the server's word that it is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from pydantic import Field

from clusters.guard import Undo
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import FAILURES, Direct, NoAnswer
from faults.failpoint import FailPoint, Proof
from faults.options import Options
from faults.parameter import Parameter

FAIL_POINT: Final = "setYieldAllLocksHang"
STEPS: Final = "internalQueryExecYieldIterations"
PROOF_DEADLINE = 20.0
"""Seconds in which something must have run into it."""


class HangInYieldOptions(Options):
    """Options of `hang-in-yield`."""

    steps: int = Field(
        default=5, ge=1, le=1_000_000, description="Steps until it yields, a little more than documents."
    )
    proof: Proof = Field(default="entered", description="What must be seen of it.")


@register
class HangInYield:
    """Hang between two documents; see the module."""

    name: ClassVar[str] = "hang-in-yield"
    options: ClassVar[type[Options]] = HangInYieldOptions
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a member that runs with enableTestCommands=1, and a namespace"
    proven_by: ClassVar[str] = "the fail point's count, which grows; with proof=on the server's word that it is on"
    healed_by: ClassVar[str] = "the fail point off, and seen to be off; yields as often as before"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._namespace = site.namespace
        self._fail_point = FailPoint(site.target.host, FAIL_POINT, {"namespace": site.namespace})
        self._options: HangInYieldOptions = options or HangInYieldOptions()
        self._steps = Parameter(site.target.host, STEPS, self._options.steps)

    async def available(self) -> str | None:
        if self._namespace is None:
            return "it holds what goes over many documents of one namespace, and none was given"
        if reason := await means.obstacle(self.target, self._fail_point):
            return reason
        try:
            self._steps.plan(await self._steps.now(self.target))
        except NoAnswer as error:
            return str(error)
        return None

    def undo(self) -> Sequence[Undo]:
        return [self._steps.undo(), self._fail_point.undo()]

    async def inject(self) -> None:
        with closing(Direct(self.target.host)) as server:
            await self._steps.on(server)
        await self._fail_point.on()

    async def proof(self) -> Evidence:
        times = await self._fail_point.run_into(PROOF_DEADLINE, proof=self._options.proof)
        if times is None:
            raise Unproven(f"nothing ran into {self._fail_point} on {self.target.name} within {PROOF_DEADLINE:g} s")
        return Evidence(
            f"{self._fail_point} is on on {self.target.name} for {self._namespace}, entered {times} times",
            {"entered": times, "steps": self._steps.value, "before": self._steps.before},
        )

    async def active(self) -> bool:
        return await means.acts(self._fail_point)

    async def heal(self) -> None:
        await means.switch_off(self.target, self._fail_point)
        try:
            with closing(Direct(self.target.host)) as server:
                await self._steps.off(server)
        except FAILURES:
            if self.target.running():
                raise
