"""The way of a run with change streams: load, settle, break, hold, release, recover, check, on a cluster that stands.

Bring-up, record and judgement are `harness.run`'s.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, cast

from clusters.cluster import of_set
from clusters.guard import Reconfigure
from harness import selection, stage
from harness.drivers.streams import Streams
from harness.drivers.writers import WriterPlan, Writers
from harness.ground import Ground, processes
from harness.holding import Holding
from harness.scenarios.base import Load, OneFault, StreamScenario
from harness.storm import Storm
from harness.traffic import Traffic, delivering, written
from harness.watchers import WatchedMember, Watchers
from harness.way import Way

SOURCE: Final = "run"
OPEN_DEADLINE = 60.0
CAUGHT_UP_DEADLINE = 90.0
EVENTS_BEFORE_BREAK = 4
"""Events each stream must have delivered before anything is moved or broken."""
WRITES_BEFORE_BREAK = 10
"""Acknowledged writes on each shard before the break: fewer prove nothing."""
AFTERGLOW = 2.0
"""Seconds of traffic after recovery: a stream that moves again shows it on new events, not on the backlog alone."""


class Streaming:
    def __init__(self, scenario: StreamScenario, way: Way) -> None:
        self._scenario, self._parameters = scenario, scenario.parameters
        self._way = way
        self._recorder, self._run, self._phase = way.recorder, way.run, way.phase

    async def through(self, ground: Ground, stack: AsyncExitStack) -> None:
        """All phases on a cluster that stands. Raises Refused where nothing was changed yet."""
        cluster = ground.cluster
        load = self._scenario.load(cluster, f"mongofault_{self._run}.orders", self._run)
        if self._parameters.cluster is not None and self._scenario.schedule(cluster.topology) is None:
            await self._holding().possible(ground, load.namespace)
        self._way.begun()
        self._phase("load", None)
        tags = self._scenario.tags(cluster)
        await self._tagged(ground, tags)
        if self._parameters.cluster is not None:
            await self._way.leave_no_data(ground, load.namespace.partition(".")[0])
        await stage.make_namespace(cluster, load.namespace, load.documents)

        watchers = Watchers(
            self._recorder,
            [WatchedMember.of(one) for one in cluster.members.values()],
            load.namespace,
            self._run,
            router=cluster.router,
            processes=partial(processes, cluster),
            threshold=self._parameters.threshold,
            noop_interval=float(cluster.server.parameters.get("periodicNoopIntervalSecs", 10)),
        )
        await watchers.start()
        stack.push_async_callback(watchers.stop)
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
        self._phase("settle", None)
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
        """Everything that is broken is healed afterwards."""
        schedule = self._scenario.schedule(ground.cluster.topology)
        if schedule is None:
            healed = await self._holding().through(ground, traffic)
        else:
            seed = self._parameters.seed
            healed = await Storm(schedule, seed, self._recorder, self._phase).through(ground, traffic)
        await self._way.recover(ground.cluster, healed)

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
        self._phase("check", None)
