"""`fail-point`: any fail point of the server, switched on with the data and in the mode that are given.

For what no other fault here does. What it does to whom, whoever names it must know: some of them end the process.
Proven by its count, which must grow; with proof=on by the server's word that it is on, which shows no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from bson import json_util
from pydantic import Field

from clusters.guard import Undo
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.failpoint import FailPoint, Proof
from faults.options import Document, Options

PROOF_DEADLINE = 20.0
"""Seconds in which something must have run into it."""


class FailPointOptions(Options):
    """Options of `fail-point`."""

    point: str = Field(min_length=1, description="Its name; 'getParameter' with '*' lists them as failpoint.NAME.")
    data: Document = Field(default_factory=dict, description="What it is given, as extended JSON.")
    mode: Literal["alwaysOn"] | Document = Field(
        default="alwaysOn", description='Or {"times": N}, {"skip": N}, {"activationProbability": P}.'
    )
    proof: Proof = Field(default="entered", description="What must be seen of it.")


@register
class AnyFailPoint:
    """Switch one fail point on; see the module."""

    name: ClassVar[str] = "fail-point"
    options: ClassVar[type[Options]] = FailPointOptions
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that runs with enableTestCommands=1 and has that fail point"
    proven_by: ClassVar[str] = "the fail point's count, which grows; with proof=on the server's word that it is on"
    healed_by: ClassVar[str] = "the fail point off, and seen to be off"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any) -> None:
        self.target = site.target
        self._site = site
        self._options: FailPointOptions = options
        self._fail_point = FailPoint(site.target.host, options.point, options.data, mode=options.mode)

    async def available(self) -> str | None:
        return means.stand_in(self._site) or await means.obstacle(self.target, self._fail_point)

    def undo(self) -> Sequence[Undo]:
        return [self._fail_point.undo()]

    async def inject(self) -> None:
        await self._fail_point.on()

    async def proof(self) -> Evidence:
        times = await self._fail_point.run_into(PROOF_DEADLINE, proof=self._options.proof)
        if times is None:
            raise Unproven(
                f"nothing ran into {self._fail_point} on {self.target.name} within {PROOF_DEADLINE:g} s; "
                "proof=on asks for no more than that it is on"
            )
        return Evidence(
            f"{self._fail_point} is on on {self.target.name}, entered {times} times",
            {"entered": times, "mode": self._options.mode, "data": json_util.dumps(self._options.data)},
        )

    async def active(self) -> bool:
        return await means.acts(self._fail_point)

    async def heal(self) -> None:
        await means.switch_off(self.target, self._fail_point)
