"""One fault, on and off again by a schedule, while consumers write: each time aimed anew, proven, held, healed.

When it is on is `harness.schedule`'s affair, what it is aimed at the caller's. It judges nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from clusters.cluster import Cluster
from faults.base import Injection, Unproven
from harness import stage
from harness.history import Recorder
from harness.holding import heal, held, record_lost, record_opened
from harness.schedule import Planned

SOURCE: Final = "run"

Aim = Callable[[], Awaitable[tuple[Injection, list[str]]]]
"""The fault as it can be injected now, and its options. Raises Refused."""


async def on_and_off(
    recorder: Recorder, cluster: Cluster, schedule: Sequence[Planned], aim: Aim, *, until: float
) -> bool:
    """All of the schedule, but for what would still be on after `until` seconds; whether all that was on is healed.

    A fault waits for the one before it to be healed and recovered from. Raises Unproven, Refused, ClusterError.
    """
    recorder.record("schedule", SOURCE, faults=[one.plain() for one in schedule])
    began = time.monotonic()
    for one in schedule:
        identity = f"f{one.number}"
        await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
        if time.monotonic() - began + one.hold > until:
            # What nobody writes into any more would be proven by nothing.
            reason = "the one before it was healed too late for it"
            recorder.record("fault.skipped", SOURCE, id=identity, fault=one.fault, on=one.on, reason=reason)
            continue
        injection, options = await aim()
        if not await _once(recorder, one, identity, injection, options):
            return False
        healed_at = time.monotonic()
        await stage.recovered(cluster)
        recorder.record("fault.recovered", SOURCE, id=identity, seconds=round(time.monotonic() - healed_at, 3))
    return True


async def _once(
    recorder: Recorder, planned: Planned, identity: str, injection: Injection, options: Sequence[str]
) -> bool:
    record_opened(recorder, SOURCE, injection, identity, options)
    try:
        evidence = await injection.inject()
        recorder.record("fault.proven", SOURCE, id=identity, evidence=dataclasses.asdict(evidence))
        await held(injection, planned.hold, partial(record_lost, recorder, SOURCE, identity))
    except Unproven as error:
        recorder.record("fault.unproven", SOURCE, id=identity, reason=str(error))
        raise
    finally:
        healed = await heal(recorder, SOURCE, injection, identity)
    return healed
