"""The order of a run, and the only place that wires the rooms together.

Bring up, load, settle, break, hold, release, recover, check. Whatever happens on the way: what was broken is healed,
the run's own cluster is removed, and the record is judged as far as it goes.
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

from clusters import local
from clusters.cluster import ServerInfo, of_set
from clusters.errors import ClusterError, Refused
from clusters.guard import LedgerError, Reconfigure, RunCommand
from clusters.liveness import while_all_live
from clusters.topology import Topology
from clusters.uri import Uri, redacted
from clusters.wire.connection import CommandFailed, ConnectionLost
from harness import selection, stage
from harness.drivers.clients import driver_versions
from harness.drivers.streams import Streams, StreamsNotOpen
from harness.drivers.writers import WriterPlan, Writers
from harness.ground import Ground, kept_ground, own_ground, processes
from harness.history import COMPLETED, INTERRUPTED, RUN_FAILED, NotRecorded, Recorder
from harness.holding import Holding
from harness.interrupts import Interrupted, interruptible
from harness.record import Record
from harness.report.live import View
from harness.result import Result
from harness.scenarios.base import Load, OneFault, Scenario
from harness.storm import Storm
from harness.traffic import Traffic, delivering, written
from harness.watchers import WatchedMember, Watchers

SOURCE: Final = "run"
OPEN_DEADLINE = 60.0
CAUGHT_UP_DEADLINE = 90.0
EVENTS_BEFORE_BREAK = 4
"""Events each stream must have delivered before anything is moved or broken."""
WRITES_BEFORE_BREAK = 10
"""Acknowledged writes on each shard before the break: fewer prove nothing."""
AFTERGLOW = 2.0
"""Seconds of traffic after recovery: a stream that moves again shows it on new events, not on the backlog alone."""


FAILURES: Final = (
    ClusterError,
    StreamsNotOpen,
    TimeoutError,
    PyMongoError,
    CommandFailed,
    ConnectionLost,
    LedgerError,
    NotRecorded,
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
                    self._record.keep_logs((one.name, one.log) for one in cluster.processes)

    async def _through(self, ground: Ground) -> None:
        """All phases on a cluster that stands; what was opened on the way is closed at the end."""
        async with AsyncExitStack() as stack:
            await self._loaded(ground, stack)

    # bring-up

    def _ground(self) -> AbstractAsyncContextManager[Ground]:
        name = f"run-{self._run}"
        if self._parameters.cluster is not None:
            return kept_ground(self._uri or self._parameters.cluster, name, self._scenario, self._started)
        topology = self._scenario.topology()
        self._started(topology, local.server_info(topology))
        self._phase("bring-up")
        return own_ground(
            topology,
            name,
            seed=self._parameters.seed,
            proxied=self._scenario.proxied(),
            down=partial(self._view.phase, "take-down"),
        )

    def _started(self, topology: Topology, server: ServerInfo) -> None:
        self._recorder.record(
            "run.started",
            SOURCE,
            scenario=self._scenario.name,
            parameters=self._parameters.model_dump()
            | {"shards": len(topology.shards), "members": len(topology.shards[0].members)},
            seed=self._parameters.seed,
            driver=driver_versions(self._parameters.driver),
            server=dataclasses.asdict(server),
            expected=sorted(self._scenario.expected(server)),
        )

    # load and settle

    async def _loaded(self, ground: Ground, stack: AsyncExitStack) -> None:
        cluster = ground.cluster
        load = self._scenario.load(cluster, f"mongofault_{self._run}.orders", self._run)
        if self._parameters.cluster is not None and self._scenario.schedule(cluster.topology) is None:
            await self._holding().possible(ground, load.namespace)
        self.under_way = True
        self._phase("load")
        tags = self._scenario.tags(cluster)
        await self._tagged(ground, tags)
        if self._parameters.cluster is not None:
            assert cluster.router is not None
            drop = RunCommand(cluster.router, load.namespace.partition(".")[0], {"dropDatabase": 1})
            ground.ledger.open(drop, "fault", f"data of run {self._run}")
        await stage.make_namespace(cluster, load.namespace, load.documents)

        watchers = Watchers(
            self._recorder,
            [WatchedMember(one.name, one.host, one.spec.role, one.spec.set_name) for one in cluster.members.values()],
            load.namespace,
            self._run,
            router=cluster.router,
            processes=partial(processes, cluster),
            threshold=self._parameters.threshold,
            noop_interval=float(cluster.server.parameters.get("periodicNoopIntervalSecs", 10)),
        )
        await watchers.start()
        stack.push_async_callback(watchers.stop)
        self._view.follow(watchers.states, watchers.alarms)
        if self._scenario.selects_by_latency(cluster.server):
            await self._evened(ground)
        streams = Streams(self._recorder, load.streams)
        await streams.start(deadline=OPEN_DEADLINE)
        stack.push_async_callback(streams.stop)
        writers = await self._writing(load, stack)
        if writers is not None:
            await delivering(streams, EVENTS_BEFORE_BREAK)
            await written(writers, WRITES_BEFORE_BREAK)
        await self._settled(ground, streams)
        traffic = Traffic(load.namespace, streams, writers, watchers)
        await self._broken(ground, traffic)
        await self._closed(ground, traffic)

    async def _writing(self, load: Load, stack: AsyncExitStack) -> Writers | None:
        if not self._parameters.traffic:
            return None
        plan = WriterPlan(
            load.streams.uri, load.namespace, self._run, load.documents, load.rate, driver=load.streams.driver
        )
        writers = Writers(self._recorder, plan, load.writers)
        await writers.start()
        stack.push_async_callback(writers.stop)
        return writers

    async def _tagged(self, ground: Ground, tags: stage.Tags) -> None:
        """Give members their tags. A kept cluster gets its own back with the healing, as from its ledger."""
        if self._parameters.cluster is not None:
            before = await stage.current_tags(ground.cluster, list(tags))
            for set_name, members in stage.by_set(ground.cluster, before).items():
                hosts = [member.host for member in of_set(ground.cluster, set_name)]
                undo = Reconfigure(hosts, set_name, {host: {"tags": one} for host, one in members.items()})
                ground.ledger.open(undo, "fault", f"tags of {set_name}")
        await stage.set_tags(ground.cluster, tags)

    async def _evened(self, ground: Ground) -> None:
        """Make all members equally near. A kept cluster gets the true round trips back with the healing."""
        if self._parameters.cluster is not None:
            for undo in selection.undo_even(ground.cluster):
                ground.ledger.open(undo, "fault", f"round trips on {undo.host}")
        await selection.even(ground.cluster)

    async def _settled(self, ground: Ground, streams: Streams) -> None:
        self._phase("settle")
        if self._scenario.selects_by_latency(ground.cluster.server):
            for one in await selection.settled(ground.cluster, self._run):
                self._recorder.record(
                    "selection", SOURCE,
                    member=one.member, set=one.set_name, window=list(one.window), streams=list(one.streams),
                )  # fmt: skip
        moved = self._scenario.moved_tags(ground.cluster)
        if not moved:
            return
        await stage.set_tags(ground.cluster, moved)
        self._recorder.record("cluster", SOURCE, what="tags moved", tags=dict(moved))
        await stage.tags_seen(ground.cluster, ground.cluster.members[next(iter(moved))], moved)
        if self._parameters.traffic:
            await delivering(streams, EVENTS_BEFORE_BREAK)

    # break, recover, check

    async def _broken(self, ground: Ground, traffic: Traffic) -> None:
        """Everything that is broken is healed afterwards; recovered from is what could be healed."""
        schedule = self._scenario.schedule(ground.cluster.topology)
        if schedule is None:
            healed = await self._holding().through(ground, traffic)
        else:
            seed = self._parameters.seed
            healed = await Storm(schedule, seed, self._recorder, self._phase).through(ground, traffic)
        healed_at = self._recorder.now()
        self._phase("recover")
        if not all(healed.values()):
            return  # What is still broken keeps its set from being whole; the record says so.
        await stage.recovered(ground.cluster)
        seconds = round((self._recorder.now() - healed_at) / 1e9, 3)
        for one in healed:
            self._recorder.record("fault.recovered", SOURCE, id=one, seconds=seconds)

    def _holding(self) -> Holding:
        return Holding(cast(OneFault, self._scenario), self._recorder, self._run, self._phase)

    async def _closed(self, ground: Ground, traffic: Traffic) -> None:
        """The writing ends, the streams catch up, the documents are counted."""
        if traffic.writers is not None:
            await asyncio.sleep(AFTERGLOW)
            await traffic.writers.stop()
            self._recorder.record("traffic", SOURCE, **dataclasses.asdict(traffic.writers.counters))
        await traffic.watchers.delivered(deadline=CAUGHT_UP_DEADLINE)
        if traffic.writers is not None:
            documents = await stage.census(ground.cluster, traffic.namespace)
            self._recorder.record("census", SOURCE, documents=documents)
        self._phase("check")
