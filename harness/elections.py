"""Who is primary of each set of a cluster, and by which election: before a run's writes, and after them.

What an old primary had alone may be gone since: whoever judges what is left must know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clusters import admin
from clusters.cluster import Cluster, primary_of
from harness.history import Recorder

SOURCE: Final = "run"
DEADLINE = 10.0
"""Seconds for a primary to say by which election it is one."""


@dataclass(frozen=True, slots=True)
class Election:
    """`identity` differs from one election to the next, also where the same member wins."""

    primary: str
    identity: str


async def elections(cluster: Cluster) -> dict[str, Election]:
    """The last one of each set. Raises ClusterError where nobody is primary."""
    found = {}
    for one in cluster.topology.shards:
        primary = await primary_of(cluster, one.name)
        async with admin.connected(primary.host, deadline=DEADLINE) as connection:
            found[one.name] = Election(primary.name, str(connection.hello.get("electionId")))
    return found


def record_changes(recorder: Recorder, before: Mapping[str, Election], after: Mapping[str, Election]) -> None:
    for name, election in after.items():
        if election != before[name]:
            recorder.record(
                "cluster", SOURCE, what="primary changed", set=name, before=before[name].primary, now=election.primary
            )
