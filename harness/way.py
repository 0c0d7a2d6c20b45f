"""What a run gives to the way that its scenario takes through a cluster: where it records, and whom it tells.

And what is the same on every way. Which ways there are is `harness.run`'s affair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from clusters.cluster import Cluster, primary_of
from clusters.guard import RunCommand
from harness import stage
from harness.ground import Ground
from harness.history import Recorder
from harness.measures import NS
from harness.report.live import View

SOURCE: Final = "run"


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

    async def recover(self, cluster: Cluster, healed: Mapping[str, bool]) -> None:
        """Recovered from is what could be healed; `healed` by the faults' ids. Raises ClusterError."""
        healed_at = self.recorder.now()
        self.phase("recover", None)
        if not all(healed.values()):
            return  # What is still broken keeps its set from being whole; the record says so.
        await stage.recovered(cluster)
        seconds = round((self.recorder.now() - healed_at) / NS, 3)
        for one in healed:
            self.recorder.record("fault.recovered", SOURCE, id=one, seconds=seconds)
