"""Was there enough traffic for the run to prove anything?

A run without writes, or with streams that never delivered, passes every other check without having tested anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any

from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import windows

NAME = "traffic"
STATEMENT = (
    "Each shard is written to before and during the hold, and each stream delivers before it, at least so often."
)


def examine(digest: Digest, context: Context) -> Finding:
    """Valid or unknown, never invalid: a run below its minimum traffic proves nothing."""
    held = windows(digest, context)
    broken_at = held[0].opened if held else digest.phase("break") or digest.end
    before, during, total = Counter[str](), Counter[str](), Counter[str]()
    writes = digest.writes
    for index in writes.acknowledged:
        shard, t = str(writes.shard[index]), writes.ended[index]
        total[shard] += 1
        if t < broken_at:
            before[shard] += 1
        elif any(window.active <= t <= window.release for window in held):
            during[shard] += 1
    events = {
        stream.name: bisect_left(stream.delivered_at, broken_at)
        for stream in digest.streams.values()
        if 0 <= stream.opened < broken_at
    }
    doubts = list(_doubts(context, before, during if held else None, total, events))
    evidence: dict[str, Any] = {
        "minimum": {"writes_per_shard": context.minimum_writes, "events_per_stream": context.minimum_events},
        "writes_before": dict(sorted(before.items())),
        "writes_in_hold": dict(sorted(during.items())),
        "writes": dict(sorted(total.items())),
        "fewest_events_before": min(events.values(), default=0),
        "doubts": doubts,
    }
    return Finding(NAME, "unknown" if doubts else True, STATEMENT, evidence)


def _doubts(
    context: Context,
    before: Counter[str],
    during: Counter[str] | None,
    total: Counter[str],
    events: dict[str, int],
) -> Iterable[str]:
    least = context.minimum_writes
    if least > 0:
        if not total:
            yield "no write was acknowledged"
        elif context.shards is not None and len(total) < context.shards:
            yield f"writes were acknowledged on {len(total)} of {context.shards} shards only"
        for when, counts in (("before the break", before), ("during the hold", during)):
            if counts is None:
                continue
            for shard in sorted(total):
                if counts[shard] < least:
                    yield f"shard {shard}: {counts[shard]} writes acknowledged {when}, at least {least} needed"
    if context.minimum_events > 0:
        if not events:
            yield "no stream was open before the break"
        for stream, count in events.items():
            if count < context.minimum_events:
                yield (
                    f"stream {stream}: {count} events delivered before the break, "
                    f"at least {context.minimum_events} needed"
                )
