"""What drives the cluster and what looks on while a run goes its way, and the waits until they have come far enough.

It opens nothing, breaks nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusters import admin
from harness.drivers.streams import Streams
from harness.drivers.writers import Writers
from harness.watchers import Watchers

DEADLINE = 60.0
"""Seconds for each of the waits."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a run has going once its cluster is loaded; no writers where no traffic was asked for."""

    namespace: str
    streams: Streams
    writers: Writers | None
    watchers: Watchers


def delivered(streams: Streams) -> dict[str, int]:
    """How many events each stream has delivered by now."""
    return {name: one.events for name, one in streams.consumers.items()}


async def delivering(streams: Streams, events: int, *, since: Mapping[str, int] | None = None) -> None:
    """Until every stream has delivered so many more events, counted from now or from an earlier `delivered`."""
    before = delivered(streams) if since is None else since

    async def more() -> bool:
        return all(now >= before[name] + events for name, now in delivered(streams).items())

    await admin.until(f"every stream delivers {events} more events", more, deadline=DEADLINE)


async def written(writers: Writers, on_each_shard: int) -> None:
    """Until every shard has acknowledged so many writes: the writers go round them evenly."""
    wanted = on_each_shard * len({document.shard for document in writers.plan.documents})

    async def acknowledged() -> bool:
        return writers.counters.ok >= wanted

    await admin.until(f"{wanted} writes are acknowledged", acknowledged, deadline=DEADLINE)
