"""The fault of a run with retrying consumers, from its injection to its heal, while they write.

It begins when they are ready, and before they have anything to write. What comes before and after is
`harness.retrying`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from clusters import admin
from clusters.cluster import primary_of
from faults.base import Injection
from harness import write_kills
from harness.alternating import on_and_off
from harness.beside import beside
from harness.drivers.consumers import Consumers
from harness.ground import Ground
from harness.holding import FAULT_ID, SOURCE, aim, heal, held, proven, record_lost, record_opened
from harness.scenarios.retry_overlap import RetryOverlap
from harness.watchers.copies import Copies
from harness.watchers.exact import ExactSources
from harness.way import Way

ON_DEADLINE = 20.0
"""Seconds until the fault must be on, proven or not."""


class Stalling:
    """On the first shard's primary, which `namespace` is on."""

    def __init__(self, scenario: RetryOverlap, way: Way, namespace: str) -> None:
        self._scenario, self._parameters = scenario, scenario.parameters
        self._recorder, self._phase = way.recorder, way.phase
        self._namespace = namespace

    async def possible(self, ground: Ground) -> None:
        """Raises Refused where the fault is not to be had on this cluster; it changes nothing there."""
        if self._parameters.fault != "none":
            await self._aimed(ground)

    async def through(
        self, ground: Ground, consumers: Consumers, sources: ExactSources, copies: Copies
    ) -> Mapping[str, bool]:
        """All of it; whether what is to be recovered from is healed, by id. Raises Refused, Unproven."""
        if self._parameters.fault == "none":
            consumers.produce(self._parameters.rate)
            self._phase("hold", None)
            await consumers.finished(self._scenario.done_within)
            self._phase("release", None)
            return {}
        healed = await (
            self._once(ground, consumers, copies)
            if self._parameters.every is None
            else self._on_and_off(ground, consumers)
        )
        await sources.read("released")
        return healed

    async def _once(self, ground: Ground, consumers: Consumers, copies: Copies) -> Mapping[str, bool]:
        injection, options = await self._aimed(ground)
        record_opened(self._recorder, SOURCE, injection, FAULT_ID, options)
        try:
            await self._injected(injection, consumers)
            self._phase("hold", self._parameters.hold)
            await self._held(injection, consumers)
            self._phase("release", None)
            if self._parameters.release == "kill-op":
                await write_kills.kill(ground.cluster, self._recorder, copies.ops())
        finally:
            healed = await heal(self._recorder, SOURCE, injection, FAULT_ID)
        return {FAULT_ID: healed}

    async def _on_and_off(self, ground: Ground, consumers: Consumers) -> Mapping[str, bool]:
        """The same of a fault that comes and goes while records are produced, each time recovered from."""
        parameters = self._parameters
        schedule = parameters.pulses(f"{ground.cluster.topology.shards[0].name}/primary")
        consumers.produce(parameters.records_a_second)
        self._phase("hold", parameters.production)
        aimed = partial(self._aimed, ground)
        left = await on_and_off(self._recorder, ground.cluster, schedule, aimed, until=parameters.production)
        await consumers.finished(self._scenario.done_within)
        self._phase("release", None)
        return left

    async def _aimed(self, ground: Ground) -> tuple[Injection, list[str]]:
        """The fault on the member that is written to, and its options. Raises Refused where it cannot bear it."""
        cluster = ground.cluster
        target = await primary_of(cluster, cluster.topology.shards[0].name)
        options = self._scenario.fault_options(self._namespace, cluster.router is not None)
        return await aim(ground, target, self._parameters.fault, options, self._namespace), options

    async def _injected(self, injection: Injection, consumers: Consumers) -> None:
        """Some faults are proven by nothing but the writes that run into them: these begin once it is on."""
        acting = asyncio.create_task(injection.inject())
        try:

            async def acts() -> bool:
                return acting.done() or await injection.fault.active()

            await admin.until(f"{injection.fault.name} is on", acts, deadline=ON_DEADLINE)
            if not acting.done() or acting.exception() is None:
                consumers.produce(self._parameters.rate)
            await proven(self._recorder, SOURCE, FAULT_ID, acting)
        finally:
            if not acting.done():
                acting.cancel()
                await asyncio.wait([acting])

    async def _held(self, injection: Injection, consumers: Consumers) -> None:
        """Until all consumers are done, or for as long as it was asked for."""
        hold, longest = self._parameters.hold, self._scenario.done_within
        lost = partial(record_lost, self._recorder, SOURCE, FAULT_ID)
        async with beside(held(injection, longest if hold is None else hold, lost)) as watching:
            if hold is not None:
                await watching
                return
            async with beside(consumers.finished(longest)) as done:
                await asyncio.wait([watching, done], return_when=asyncio.FIRST_COMPLETED)
