"""One fault, on and off again by a schedule, while consumers write: each time aimed anew, proven, held, healed.

When it is on is `harness.schedule`'s affair, what it is aimed at the caller's. It judges nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from clusters.cluster import Cluster
from faults.base import Injection
from harness import stage
from harness.history import Recorder
from harness.holding import struck
from harness.schedule import Planned

SOURCE: Final = "run"

Aim = Callable[[], Awaitable[tuple[Injection, list[str]]]]
"""The fault as it can be injected now, and its options. Raises Refused."""


async def on_and_off(
    recorder: Recorder, cluster: Cluster, schedule: Sequence[Planned], aim: Aim, *, until: float
) -> Mapping[str, bool]:
    """All of the schedule, but for what would still be on after `until` seconds; by id, what could not be healed.

    A fault waits for the one before it to be healed and recovered from. Raises Unproven, Refused, ClusterError.
    """
    recorder.record("schedule", SOURCE, faults=[one.plain() for one in schedule])
    began = time.monotonic()
    for one in schedule:
        await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
        if time.monotonic() - began + one.hold > until:
            # What nobody writes into any more would be proven by nothing.
            reason = "the one before it was healed too late for it"
            recorder.record("fault.skipped", SOURCE, id=one.identity, fault=one.fault, on=one.on, reason=reason)
            continue
        injection, options = await aim()
        healed, unproven = await struck(recorder, SOURCE, one, injection, options)
        if unproven is not None:
            raise unproven
        if not healed:
            return {one.identity: False}
        healed_at = time.monotonic()
        await stage.recovered(cluster)
        recorder.record("fault.recovered", SOURCE, id=one.identity, seconds=round(time.monotonic() - healed_at, 3))
    return {}
