"""What a run gives to the way that its scenario takes through a cluster: where it records, and whom it tells.

Which ways there are is `harness.run`'s affair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clusters.cluster import primary_of
from clusters.guard import RunCommand
from harness.ground import Ground
from harness.history import Recorder
from harness.report.live import View


@dataclass(frozen=True, slots=True)
class Way:
    """`run` is the run's suffix, by which its data is known. `phase` is told of each phase as it begins, and how long
    it is meant to last if that is known; `begun` is called when something is about to be changed."""

    recorder: Recorder
    run: str
    view: View
    phase: Callable[[str, float | None], None]
    begun: Callable[[], None]

    async def leave_no_data(self, ground: Ground, database: str) -> None:
        """Of a cluster that stays the database of the run goes with the healing."""
        cluster = ground.cluster
        entrance = cluster.router or (await primary_of(cluster, cluster.topology.shards[0].name)).host
        ground.ledger.open(RunCommand(entrance, database, {"dropDatabase": 1}), "fault", f"data of run {self.run}")
