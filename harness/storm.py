"""A schedule of faults carried out on a loaded cluster: each aimed when its time has come, proven, held, healed.

It decides nothing about what is planned (`harness.schedule`), and judges nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from clusters.errors import Refused
from faults.base import Injection
from faults.nodespec import resolve
from harness import nodes
from harness.ground import Ground
from harness.history import Recorder
from harness.holding import aim, struck
from harness.schedule import Planned
from harness.traffic import Traffic

SOURCE: Final = "chaos"


class Storm:
    """`seed` decides among the members that a node spec may mean when its time has come."""

    def __init__(
        self,
        schedule: Sequence[Planned],
        seed: int,
        recorder: Recorder,
        phase: Callable[[str, float | None], None],
    ) -> None:
        self._schedule = schedule
        self._seed = seed
        self._recorder = recorder
        self._phase = phase
        self._busy: set[str] = set()
        self._healed: dict[str, bool] = {}

    async def through(self, ground: Ground, traffic: Traffic) -> dict[str, bool]:
        """All of it; whether what was broken is healed, by id. A cancelled caller finds it healed as well."""
        self._recorder.record("schedule", SOURCE, faults=[one.plain() for one in self._schedule])
        self._phase("chaos", max((one.at + one.hold for one in self._schedule), default=0.0))
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for one in self._schedule:
                    group.create_task(self._one(one, began, ground, traffic), name=f"fault {one.number}")
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self._phase("release", None)
        return self._healed

    async def _one(self, planned: Planned, began: float, ground: Ground, traffic: Traffic) -> None:
        await asyncio.sleep(began + planned.at - time.monotonic())
        try:
            injection = await self._aimed(planned, ground, traffic)
        except Refused as error:
            self._recorder.record(
                "fault.skipped", SOURCE, id=planned.identity, fault=planned.fault, on=planned.on, reason=str(error)
            )
            return
        try:
            healed, _unproven = await struck(self._recorder, SOURCE, planned, injection, planned.options)
            self._healed[planned.identity] = healed
        finally:
            self._busy.discard(injection.fault.target.name)

    async def _aimed(self, planned: Planned, ground: Ground, traffic: Traffic) -> Injection:
        """The fault on a node that nothing else strikes. Raises Refused where there is none, or it cannot bear it."""
        states = [one for one in await nodes.as_they_are(ground.cluster) if one.name not in self._busy]
        (name, *_) = resolve(planned.on, states, random.Random(f"{self._seed}/{planned.number}"))
        self._busy.add(name)
        try:
            target = nodes.node(ground.cluster, name)
            return await aim(ground, target, planned.fault, planned.options, traffic.namespace)
        except BaseException:
            self._busy.discard(name)
            raise
