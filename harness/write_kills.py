"""The run's writes inside the engine killed, while the fault that holds them is still there.

What had been done of each by then stays done. It heals nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from clusters import admin
from clusters.cluster import Cluster
from harness.history import Recorder
from harness.watchers.inside import Op

SOURCE: Final = "release"
ANSWER = 10.0


async def kill(cluster: Cluster, recorder: Recorder, ops: Iterable[Op]) -> None:
    """killOp those of `ops` that are this run's writes, as a sampler last saw them; those gone meanwhile do not mind.

    Each ends when it next looks for an interrupt: under a fail point that does not look, when that is off.
    """
    by_member: dict[str, list[Op]] = {}
    for op in ops:
        if op.write is not None:
            by_member.setdefault(op.member, []).append(op)
    for name, found in by_member.items():
        async with admin.connected(cluster.members[name].host) as connection:
            for op in found:
                await connection.command("admin", {"killOp": 1, "op": op.opid}, deadline=ANSWER)
                recorder.record(
                    "release", SOURCE, what="op killed", member=name, opid=op.opid, write=op.write,
                    execution=op.execution,
                )  # fmt: skip
