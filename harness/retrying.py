"""The way of a run with retrying consumers: load, break, hold, release, recover, check, on a cluster that stands.

The fault begins when the consumers are ready, and before they have anything to write. Counted is from before the first
write until nothing runs any more. Bring-up, record and judgement are `harness.run`'s.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final

from clusters import admin
from clusters.cluster import data_members, primary_of
from clusters.guard import RunCommand
from clusters.topology import ROUTER
from clusters.wire.connection import Connection
from faults.base import Injection
from harness import stage, write_kills
from harness.alternating import on_and_off
from harness.drivers.consumers import Consumers, ConsumersPlan
from harness.drivers.effects import record_effects
from harness.ground import Ground
from harness.holding import aim, heal, held, proven, record_lost, record_opened
from harness.scenarios.retry_overlap import RetryOverlap
from harness.watchers import WatchedMember
from harness.watchers.copies import Copies
from harness.watchers.exact import Counted, ExactSources
from harness.watchers.logged import DATABASE as LOG_DATABASE
from harness.watchers.sends import SendListener
from harness.way import Way

SOURCE: Final = "run"
FAULT_ID: Final = "f1"
GIVE_UP_DEADLINE = 60.0
"""Seconds beyond those predicted until all consumers must be done; a fault that needs not hang makes it no later."""
DRAINED_DEADLINE = 90.0
"""Seconds after the release until nothing of the run may be inside a member any more."""
ON_DEADLINE = 20.0
"""Seconds until the fault must be on, proven or not."""
ELECTION_DEADLINE = 10.0
"""Seconds for a primary to say by which election it is one."""
QUIET = 1.0
"""Seconds for which nothing must be inside: what lies in a socket's buffer is read then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Election:
    """`identity` differs from one election to the next, also where the same member wins."""

    primary: str
    identity: str


class Retrying:
    def __init__(self, scenario: RetryOverlap, way: Way) -> None:
        self._scenario, self._parameters = scenario, scenario.parameters
        self._way = way
        self._recorder, self._run, self._phase = way.recorder, way.run, way.phase

    async def through(self, ground: Ground, stack: AsyncExitStack) -> None:
        """All phases on a cluster that stands. Raises Refused where nothing was changed yet."""
        cluster, namespace = ground.cluster, f"mongofault_{self._run}.records"
        await self._possible(ground, namespace)
        self._way.begun()
        self._phase("load", None)
        await self._prepared(ground, namespace)
        plan = self._scenario.plan(cluster, namespace, self._run)
        self._recorder.record("predicted", SOURCE, **self._scenario.prediction.recorded())
        sources = await self._counting(ground, namespace)
        copies = await self._looking(ground, plan, stack)
        primaries = await self._primaries(ground)
        consumers = Consumers(self._recorder, plan, [SendListener(self._recorder, self._run)])
        stack.push_async_callback(consumers.stop)
        await consumers.start()
        self._phase("break", None)
        healed = await self._broken(ground, namespace, consumers, sources, copies)
        healed_at = self._recorder.now()
        self._phase("recover", None)
        if healed is not False:
            await stage.recovered(cluster)
            if healed:
                seconds = round((self._recorder.now() - healed_at) / 1e9, 3)
                self._recorder.record("fault.recovered", SOURCE, id=FAULT_ID, seconds=seconds)
        await consumers.finished(self._give_up)
        await self._drained(copies)
        await consumers.stop()
        self._recorder.record("traffic", SOURCE, **dataclasses.asdict(consumers.counters))
        await sources.end()
        self._compare(primaries, await self._primaries(ground))
        await record_effects(self._recorder, cluster.uri, namespace, self._run)
        self._phase("check", None)

    @property
    def _give_up(self) -> float:
        """Seconds until all consumers must be done with their records, once they have begun."""
        each = self._scenario.prediction.give_up or 0.0
        records = -(-self._parameters.produced // self._parameters.consumers)
        given_up = each * records * (1 + self._scenario.prediction.polls.redeliveries)
        return given_up + self._parameters.production + GIVE_UP_DEADLINE

    # load

    async def _possible(self, ground: Ground, namespace: str) -> None:
        """Raises Refused where the fault is not to be had on this cluster."""
        if self._parameters.fault != "none":
            await self._aimed(ground, namespace)

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
        members = [WatchedMember.of(one) for one in data_members(ground.cluster)]
        copies = Copies(
            self._recorder,
            members,
            self._run,
            namespaces=[plan.namespace],
            clients=plan.consumers,
            limit=self._parameters.alarm_above,
        )
        task = asyncio.create_task(copies.watch(), name="copies")

        async def stop() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await copies.close()

        stack.push_async_callback(stop)
        return copies

    async def _primaries(self, ground: Ground) -> dict[str, Election]:
        """By set, who is primary, and by which election."""
        found = {}
        for one in ground.cluster.topology.shards:
            primary = await primary_of(ground.cluster, one.name)
            connection = await Connection.open(primary.host, deadline=ELECTION_DEADLINE)
            connection.close()
            found[one.name] = Election(primary.name, str(connection.hello.get("electionId")))
        return found

    def _compare(self, before: dict[str, Election], after: dict[str, Election]) -> None:
        """What an old primary had alone may be gone since: whoever judges what is left must know."""
        for name, election in after.items():
            if election != before[name]:
                self._recorder.record(
                    "cluster",
                    SOURCE,
                    what="primary changed",
                    set=name,
                    before=before[name].primary,
                    now=election.primary,
                )

    # break, hold, release

    async def _aimed(self, ground: Ground, namespace: str) -> tuple[Injection, list[str]]:
        """The fault on the member that is written to, and its options. Raises Refused where it cannot bear it."""
        cluster = ground.cluster
        target = await primary_of(cluster, cluster.topology.shards[0].name)
        options = self._scenario.fault_options(namespace, cluster.router is not None)
        return await aim(ground, target, self._parameters.fault, options, namespace), options

    async def _broken(
        self, ground: Ground, namespace: str, consumers: Consumers, sources: ExactSources, copies: Copies
    ) -> bool | None:
        """The fault from its injection to its heal, while the consumers write; whether it is healed, None: there was
        none. Raises Unproven."""
        if self._parameters.fault == "none":
            consumers.produce(self._parameters.rate)
            self._phase("hold", None)
            await consumers.finished(self._give_up)
            self._phase("release", None)
            return None
        if self._parameters.every is not None:
            return await self._on_and_off(ground, namespace, consumers, sources)
        injection, options = await self._aimed(ground, namespace)
        record_opened(self._recorder, SOURCE, injection, FAULT_ID, options)
        try:
            await self._injected(injection, consumers)
            self._phase("hold", self._parameters.hold)
            await self._held(injection, consumers)
            self._phase("release", None)
            if self._parameters.release == "kill-op":
                await write_kills.kill(ground.cluster, self._recorder, copies.ops())
        finally:
            healed = await heal(self._recorder, SOURCE, injection, FAULT_ID)
        await sources.read("released")
        return healed

    async def _on_and_off(
        self, ground: Ground, namespace: str, consumers: Consumers, sources: ExactSources
    ) -> bool | None:
        """The same of a fault that comes and goes while records are produced, each time recovered from."""
        parameters = self._parameters
        schedule = parameters.pulses(f"{ground.cluster.topology.shards[0].name}/primary")
        consumers.produce(parameters.records_a_second)
        self._phase("hold", parameters.production)
        aimed = partial(self._aimed, ground, namespace)
        healed = await on_and_off(self._recorder, ground.cluster, schedule, aimed, until=parameters.production)
        await consumers.finished(self._give_up)
        self._phase("release", None)
        await sources.read("released")
        return None if healed else False

    async def _injected(self, injection: Injection, consumers: Consumers) -> None:
        """Some faults are proven by nothing but the writes that run into them: these begin once it is on."""
        acting = asyncio.create_task(injection.inject())
        try:

            async def acts() -> bool:
                return acting.done() or await injection.fault.active()

            await admin.until(f"{injection.fault.name} is on", acts, deadline=ON_DEADLINE)
            if not acting.done() or acting.exception() is None:
                consumers.produce(self._parameters.rate)
            await proven(self._recorder, SOURCE, FAULT_ID, acting)
        finally:
            if not acting.done():
                acting.cancel()
                await asyncio.wait([acting])

    async def _held(self, injection: Injection, consumers: Consumers) -> None:
        """Until all consumers are done, or for as long as it was asked for."""
        seconds = self._parameters.hold if self._parameters.hold is not None else self._give_up
        lost = partial(record_lost, self._recorder, SOURCE, FAULT_ID)
        watching = asyncio.create_task(held(injection, seconds, lost))
        try:
            if self._parameters.hold is None:
                done = asyncio.create_task(consumers.finished(seconds))
                await asyncio.wait([watching, done], return_when=asyncio.FIRST_COMPLETED)
                done.cancel()
                with suppress(asyncio.CancelledError):
                    await done
            else:
                await watching
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

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
