"""The way of a run with retrying consumers: load, break, hold, release, recover, check, on a cluster that stands.

Counted is from before the first write until nothing runs any more. What happens between break and release is
`harness.stalling`'s; bring-up, record and judgement are `harness.run`'s.
"""

from __future__ import annotations

import dataclasses
from contextlib import AsyncExitStack
from typing import Final

from clusters import admin
from clusters.cluster import data_members
from clusters.guard import RunCommand
from clusters.topology import ROUTER
from harness.beside import beside
from harness.drivers.consumers import Consumers, ConsumersPlan
from harness.drivers.effects import record_effects
from harness.elections import elections, record_changes
from harness.ground import Ground
from harness.scenarios.retry_overlap import RetryOverlap
from harness.stalling import Stalling
from harness.watchers import WatchedMember
from harness.watchers.copies import Copies
from harness.watchers.exact import Counted, ExactSources
from harness.watchers.logged import DATABASE as LOG_DATABASE
from harness.watchers.sends import SendListener
from harness.way import Way

SOURCE: Final = "run"
DRAINED_DEADLINE = 90.0
"""Seconds after the release until nothing of the run may be inside a member any more."""
QUIET = 1.0
"""Seconds for which nothing must be inside: what lies in a socket's buffer is read then."""


class Retrying:
    def __init__(self, scenario: RetryOverlap, way: Way) -> None:
        self._scenario, self._parameters = scenario, scenario.parameters
        self._way = way
        self._recorder, self._run, self._phase = way.recorder, way.run, way.phase

    async def through(self, ground: Ground, stack: AsyncExitStack) -> None:
        """All phases on a cluster that stands. Raises Refused where nothing was changed yet."""
        cluster, namespace = ground.cluster, f"mongofault_{self._run}.records"
        stalling = Stalling(self._scenario, self._way, namespace)
        await stalling.possible(ground)
        self._way.begun()
        self._phase("load", None)
        await self._prepared(ground, namespace)
        plan = self._scenario.plan(cluster, namespace, self._run)
        self._recorder.record("predicted", SOURCE, **self._scenario.prediction.recorded())
        sources = await self._counting(ground, namespace)
        copies = await self._looking(ground, plan, stack)
        before = await elections(cluster)
        consumers = Consumers(self._recorder, plan, [SendListener(self._recorder, self._run)])
        stack.push_async_callback(consumers.stop)
        await consumers.start()
        self._phase("break", None)
        await self._way.recover(cluster, await stalling.through(ground, consumers, sources, copies))
        await consumers.finished(self._scenario.done_within)
        await self._drained(copies)
        await consumers.stop()
        self._recorder.record("traffic", SOURCE, **dataclasses.asdict(consumers.counters))
        await sources.end()
        record_changes(self._recorder, before, await elections(cluster))
        await record_effects(self._recorder, cluster.uri, namespace, self._run)
        self._phase("check", None)

    async def _prepared(self, ground: Ground, namespace: str) -> None:
        """The collection, on the first shard where there are several; of a kept cluster it goes with the healing."""
        cluster = ground.cluster
        database, _, collection = namespace.partition(".")
        if self._parameters.cluster is not None:
            await self._way.leave_no_data(ground, database)
        async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
            if cluster.router is not None:
                first = cluster.topology.shards[0].name
                await client.admin.command({"enableSharding": database, "primaryShard": first})
            await client[database].create_collection(collection)

    async def _counting(self, ground: Ground, namespace: str) -> ExactSources:
        """The exact sources, which count from here on; what they change is undone whatever happens."""
        cluster = ground.cluster
        fail_points = self._scenario.fail_points(namespace, cluster.router is not None)
        members = [Counted(WatchedMember.of(one), one.log_lines, fail_points) for one in data_members(cluster)]
        control = cluster.proxy.host if cluster.proxy is not None else None
        entrances = [ROUTER.name] if cluster.router is not None else [one.member.name for one in members]
        sources = ExactSources(self._recorder, members, self._run, control=control, entrances=entrances)
        for host, threshold in (await sources.thresholds()).items():
            undo = RunCommand(host, LOG_DATABASE, threshold.command())
            ground.ledger.open(undo, "fault", f"log of requests on {host}")
        await sources.begin()
        return sources

    async def _looking(self, ground: Ground, plan: ConsumersPlan, stack: AsyncExitStack) -> Copies:
        """The sampler of what is inside the members, at work from here on."""
        copies = Copies(
            self._recorder,
            [WatchedMember.of(one) for one in data_members(ground.cluster)],
            self._run,
            namespaces=[plan.namespace],
            clients=plan.consumers,
            limit=self._parameters.alarm_above,
        )
        stack.push_async_callback(copies.close)
        await stack.enter_async_context(beside(copies.watch()))
        return copies

    async def _drained(self, copies: Copies) -> None:
        """Until nothing of the run is inside a member any more, and has not been for a while."""
        quiet_since: int | None = None

        async def empty() -> bool:
            nonlocal quiet_since
            if copies.ops():
                quiet_since = None
                return False
            quiet_since = quiet_since if quiet_since is not None else self._recorder.now()
            return self._recorder.now() - quiet_since >= QUIET * 1e9

        await admin.until("no write of the run is inside a member any more", empty, deadline=DRAINED_DEADLINE)
