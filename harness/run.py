"""A run from its bring-up to its result: the record, the cluster, the way that the scenario asks for, the judgement.

Whatever happens on the way: what was broken is healed, the run's own cluster is removed, and the record is judged as
far as it goes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, cast

from pymongo.errors import PyMongoError

from clusters import providers
from clusters.cluster import ServerInfo
from clusters.errors import ClusterError, Refused
from clusters.guard import LedgerError
from clusters.liveness import while_all_live
from clusters.topology import Topology
from clusters.uri import Uri, redacted
from clusters.wire.connection import CommandFailed, ConnectionLost
from clusters.wire.proxy.client import CountsLost
from harness.drivers.clients import driver_versions
from harness.drivers.consumers import ConsumersNotReady
from harness.drivers.streams import StreamsNotOpen
from harness.drivers.warming import NotWarm
from harness.ground import Ground, kept_ground, own_ground
from harness.history import COMPLETED, INTERRUPTED, RUN_FAILED, NotRecorded, Recorder
from harness.interrupts import Interrupted, interruptible
from harness.record import Record
from harness.report.live import View
from harness.result import Result
from harness.retrying import Retrying
from harness.routing import Routing
from harness.scenarios.base import Scenario, StreamScenario
from harness.scenarios.retry_overlap import RetryOverlap
from harness.scenarios.stale_shard import StaleShard
from harness.streaming import Streaming
from harness.way import Way

SOURCE: Final = "run"

FAILURES: Final = (
    ClusterError,
    StreamsNotOpen,
    ConsumersNotReady,
    NotWarm,
    TimeoutError,
    PyMongoError,
    CommandFailed,
    ConnectionLost,
    LedgerError,
    NotRecorded,
    CountsLost,
)
"""What a run can come to that is nobody's mistake in this code: the record says it, and the verdict is unknown."""


class Run:
    """One run of one scenario: `execute` it once."""

    def __init__(self, scenario: Scenario, runs: Path, view: View, uri: Uri | None = None) -> None:
        """`uri` as it was given, where that is how the cluster is named; it may hold what the parameters must not."""
        self._scenario = scenario
        self._runs = runs
        self._view = view
        self._uri = uri

    async def execute(self) -> Result:
        """Run, judge, write the record down. Raises Refused where nothing was started."""
        record = Record.create(self._runs, self._scenario.name)
        recorder = record.recorder()
        course = _Course(self._scenario, record, recorder, self._view, self._uri)
        self._view.begin(self._scenario, record.path, recorder)
        reason, detail = RUN_FAILED, ""
        try:
            await interruptible(course.drive())
            reason = COMPLETED
        except Interrupted as error:
            reason, detail = INTERRUPTED, error.number.name
        except FAILURES as error:
            detail = str(error)
        except Refused as error:
            if not course.under_way:
                recorder.close()
                shutil.rmtree(record.path, ignore_errors=True)
                raise
            detail = str(error)
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            raise
        finally:
            if record.path.is_dir():
                recorder.record("run.ended", SOURCE, reason=reason, detail=redacted(detail))
                recorder.close()
        if recorder.lost is not None:
            raise ClusterError(f"{recorder.lost}. What was broken is healed; of this run nothing can be judged")
        result = record.judge()
        record.write_result(result)
        return result


class _Course:
    """The way of one run, phase by phase."""

    def __init__(
        self, scenario: Scenario, record: Record, recorder: Recorder, view: View, uri: Uri | None = None
    ) -> None:
        self._uri = uri
        self._scenario = scenario
        self._parameters = scenario.parameters
        self._record = record
        self._recorder = recorder
        self._view = view
        self._run = record.suffix
        self.under_way = False
        """Whether anything was started or changed yet: until then a refusal leaves no record."""

    def _phase(self, name: str, seconds: float | None = None) -> None:
        self._recorder.record("phase", SOURCE, name=name)
        self._view.phase(name, seconds)

    async def drive(self) -> None:
        async with self._ground() as ground:
            cluster = ground.cluster
            loop = asyncio.get_running_loop()

            def replaced() -> None:
                loop.call_soon_threadsafe(partial(self._recorder.record, "cluster", SOURCE, what="guardian replaced"))

            ground.guardian.replaced = replaced
            went_well = False
            try:
                await while_all_live(self._through(ground), cluster.processes)
                self._recorder.flush()
                went_well = self._record.judge().verdict.verdict == "as expected"
            finally:
                if not went_well:
                    self._record.keep_logs(cluster.processes)

    async def _through(self, ground: Ground) -> None:
        """All phases on a cluster that stands; what was opened on the way is closed at the end."""
        scenario, way = self._scenario, Way(self._recorder, self._run, self._view, self._phase, self._begun)
        taken: Retrying | Routing | Streaming
        if isinstance(scenario, RetryOverlap):
            taken = Retrying(scenario, way)
        elif isinstance(scenario, StaleShard):
            taken = Routing(scenario, way)
        else:
            taken = Streaming(cast(StreamScenario, scenario), way)
        async with AsyncExitStack() as stack:
            await taken.through(ground, stack)

    def _begun(self) -> None:
        self.under_way = True

    # bring-up

    def _ground(self) -> AbstractAsyncContextManager[Ground]:
        name = f"run-{self._run}"
        if self._parameters.cluster is not None:
            return kept_ground(self._uri or self._parameters.cluster, name, self._scenario, self._started)
        topology = self._scenario.topology().of_version(self._parameters.server_version)
        proxied = self._scenario.proxied()
        settled = providers.settle(topology, self._parameters.provider, self._parameters.image, proxied=proxied)
        self._started(topology, settled.server, provider=settled.provider, image=settled.image)
        self._phase("bring-up")
        return own_ground(
            topology,
            name,
            seed=self._parameters.seed,
            proxied=proxied,
            settled=settled,
            down=partial(self._view.phase, "take-down"),
        )

    def _started(self, topology: Topology, server: ServerInfo, **settled: str | None) -> None:
        self._recorder.record(
            "run.started",
            SOURCE,
            scenario=self._scenario.name,
            parameters=self._parameters.model_dump()
            | {"shards": len(topology.shards), "members": len(topology.shards[0].members), **settled},
            seed=self._parameters.seed,
            driver=driver_versions(self._parameters.driver),
            server=dataclasses.asdict(server),
            expected=sorted(self._scenario.expected(server)),
        )
