"""One fault, held: aimed, injected, proven, looked at all the while, released, healed.

What is asked for is the scenario's; what comes before and after is the run's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import faults
from clusters.errors import Refused
from clusters.guard import OfServer
from clusters.member import Member
from clusters.quirks import of_version
from faults import process
from faults.base import Evidence, HealFailed, Injection, Site, Unproven
from faults.options import Given, written
from faults.options import parse as parse_options
from harness import releases
from harness.ground import Ground
from harness.history import Recorder
from harness.scenarios.base import OneFault
from harness.schedule import Planned
from harness.traffic import Traffic, delivering

SOURCE: Final = "run"
FAULT_ID: Final = "f1"
PROOF_INTERVAL = 0.1
"""Seconds between two looks at the fault while it is held."""


class Holding:
    """`phase` is told of each phase as it begins, and how long it is meant to last if that is known."""

    def __init__(
        self, scenario: OneFault, recorder: Recorder, run: str, phase: Callable[[str, float | None], None]
    ) -> None:
        self._scenario = scenario
        self._parameters = scenario.parameters
        self._recorder = recorder
        self._run = run
        self._phase = phase

    async def through(self, ground: Ground, traffic: Traffic) -> dict[str, bool]:
        """All of it; whether what was broken is healed, by id. Raises Refused, Unproven."""
        cluster = ground.cluster
        target = await self._scenario.target(cluster) if self._parameters.fault != "none" else None
        if target is not None and await self._scenario.cool(cluster, target) and traffic.writers is not None:
            await delivering(traffic.streams, 1)
        injection, options = None, self._parameters.fault_option
        if target is not None:
            options = self._scenario.fault_options(cluster)
            injection = await aim(ground, target, self._parameters.fault, options, traffic.namespace)
        hold = self._hold(ground, target, traffic)
        self._phase("break", None)
        healed: dict[str, bool] = {}
        try:
            if injection is not None:
                await self._injected(injection, options)
            self._phase("hold", self._parameters.hold)
            if injection is None:
                await asyncio.sleep(self._parameters.hold)
            else:
                lost = partial(record_lost, self._recorder, SOURCE, FAULT_ID)
                await held(injection, self._parameters.hold, lost)
            self._phase("release", None)
            if hold is not None:
                await releases.freed(hold)
        finally:
            try:
                if injection is not None:
                    healed[FAULT_ID] = await heal(self._recorder, SOURCE, injection, FAULT_ID)
            finally:
                if hold is not None:
                    await releases.restored(hold)
        return healed

    async def possible(self, ground: Ground, namespace: str) -> None:
        """Raises Refused where fault or release are not to be had on this cluster; it changes nothing there."""
        if self._parameters.fault == "none":
            return
        # Of a scenario of its own: the choice of the target, where it is one of chance, is not used up.
        target = await type(self._scenario)(self._parameters).target(ground.cluster)
        await aim(ground, target, self._parameters.fault, self._parameters.fault_option, namespace)
        if self._parameters.release == "kill-member" and (reason := process.obstacle(target)):
            raise Refused(f"--release kill-member: {reason}")

    def _hold(self, ground: Ground, target: Member | None, traffic: Traffic) -> releases.Hold | None:
        """What the release needs to know; None where it is the healing alone."""
        if target is None or self._parameters.release not in releases.RELEASES:
            return None
        before = self._scenario.tags(ground.cluster)
        return releases.Hold(
            self._parameters.release,
            ground.cluster,
            ground.ledger,
            target,
            traffic.streams,
            self._recorder,
            self._run,
            back={name: before[name] for name in self._scenario.moved_tags(ground.cluster)},
            traffic=traffic.writers is not None,
        )

    async def _injected(self, injection: Injection, options: Sequence[str]) -> None:
        record_opened(self._recorder, SOURCE, injection, FAULT_ID, options)
        await proven(self._recorder, SOURCE, FAULT_ID, injection.inject())


async def aim(ground: Ground, target: Member, name: str, options: Given, namespace: str | None) -> Injection:
    """A fault on a target. Raises Refused where it cannot bear it."""
    kind = faults.by_name(name)
    fault = kind(Site(ground.cluster, target, namespace), parse_options(name, kind.options, options))
    unavailable = await fault.available()
    if unavailable is not None:
        raise Refused(f"{name} on {target.name}: {unavailable}")
    version = ground.cluster.server.version
    if not of_version(version).drivers and any(isinstance(one, OfServer) for one in fault.undo()):
        raise Refused(f"{name} on {target.name}: the guardian could not heal it, as drivers refuse mongod {version}")
    return Injection(fault, ground.ledger, guarded=ground.guardian.alive)


async def proven(recorder: Recorder, source: str, identity: str, injecting: Awaitable[Evidence]) -> Evidence:
    """Await an injection and record what came of it. Raises Unproven."""
    try:
        evidence = await injecting
    except Unproven as error:
        recorder.record("fault.unproven", source, id=identity, reason=str(error))
        raise
    recorder.record("fault.proven", source, id=identity, evidence=dataclasses.asdict(evidence))
    return evidence


async def struck(
    recorder: Recorder, source: str, planned: Planned, injection: Injection, options: Sequence[str]
) -> tuple[bool, Unproven | None]:
    """A planned fault injected, proven, held and healed, all of it recorded: whether it is healed, and why it was not
    proven. A cancelled caller finds it healed."""
    identity, unproven = planned.identity, None
    record_opened(recorder, source, injection, identity, options)
    try:
        await proven(recorder, source, identity, injection.inject())
        await held(injection, planned.hold, partial(record_lost, recorder, source, identity))
    except Unproven as error:
        unproven = error
    finally:
        healed = await heal(recorder, source, injection, identity)
    return healed, unproven


async def held(injection: Injection, seconds: float, lost: Callable[[], object]) -> None:
    """Let the hold pass, looking again and again: a fault that was gone for a moment, of which `lost` is told once, did
    not act throughout."""
    end = time.monotonic() + seconds
    proven = True
    while (left := end - time.monotonic()) > 0:
        if proven and not await injection.fault.active():
            proven = False
            lost()
        await asyncio.sleep(min(left, PROOF_INTERVAL))


def record_lost(recorder: Recorder, source: str, identity: str) -> None:
    """While it was to be held."""
    recorder.record("fault.unproven", source, id=identity, reason="gone during the hold")


def record_opened(recorder: Recorder, source: str, injection: Injection, identity: str, options: Given) -> None:
    """Before it is injected: what is about to be broken."""
    fault = injection.fault
    recorder.record(
        "fault.opened",
        source,
        fault=fault.name,
        options=written(options),
        target=fault.target.name,
        id=identity,
        spares_health=fault.spares_health,
    )


async def heal(recorder: Recorder, source: str, injection: Injection, identity: str) -> bool:
    """Heal it and record what came of that; whether it is healed. Where not, the rest is judged all the same."""
    try:
        await injection.heal()
    except HealFailed as error:
        recorder.record("fault.not_healed", source, id=identity, reason=str(error))
        return False
    recorder.record("fault.healed", source, id=identity)
    return True
