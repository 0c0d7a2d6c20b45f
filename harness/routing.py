"""The way of a run that asks who waits behind a refresh: lay out, make stale, hold, send, release, recount.

One fine and one coarse router are asked, each on a collection of its own. What is sent, and what is to become of it, is
the scenario's case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from clusters import admin
from clusters.cluster import primary_of
from clusters.errors import ClusterError, Refused
from clusters.member import Member
from clusters.wire.connection import CommandFailed
from faults.base import Injection
from harness import nodes, ranges, stage
from harness.drivers.routed import Operation, Routed, Router
from harness.ground import Ground
from harness.holding import aim, heal, held, proven, record_lost, record_opened
from harness.scenarios.stale_cases import MOVED
from harness.scenarios.stale_shard import BEFORE_HOLD, HOLDING, SETTING, StaleShard
from harness.watchers import routing as watched
from harness.way import Way

SOURCE: Final = "run"
ON_DEADLINE: Final = 20.0
"""Seconds until what holds the refresh must be on, proven or not."""
HELD_DEADLINE: Final = 10.0
"""Seconds until a router must be seen to wait for its refresh, once it was told."""
GRACE: Final = 0.15
"""Seconds that the second accesses are given to come to where they wait, before the bystanders are sent."""
ANSWERED_AFTER: Final = 60.0
"""Seconds after the release until each operation must be answered."""
REFRESH_BLOCKED: Final = "blockCollectionCacheLookup"
"""Holds the refreshes of one router before they look; what is cached stays usable, of other collections too."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A router, what is sent through it, and the collections that are known by the names that operations have."""

    router: Router
    routed: Routed
    namespaces: Mapping[str, str]


class Routing:
    def __init__(self, scenario: StaleShard, way: Way) -> None:
        self._scenario, self._parameters, self._case = scenario, scenario.parameters, scenario.case
        self._way = way
        self._recorder, self._run, self._phase = way.recorder, way.run, way.phase
        self._faults = 0
        self._given_before = 0
        self._shards: dict[str, str] = {}
        """Where those that hold the collections are reached, by name."""

    async def through(self, ground: Ground, stack: AsyncExitStack) -> None:
        """All phases on a cluster that stands. Raises Refused where nothing was changed yet."""
        cluster = ground.cluster
        routers = await routers_of(ground)
        holding = [await primary_of(cluster, one.name) for one in cluster.topology.shards[:HOLDING]]
        self._shards = {one.name: one.host for one in holding}
        self._way.begun()
        self._phase("load", None)
        asked = [self._asked(one) for one in routers]
        for one in asked:
            await self._laid_out(ground, one)
        healed: dict[str, bool] = {}
        rounds = [[one] for one in asked] if self._case.apart else [asked]
        for each in rounds:
            healed |= await self._round(ground, each, stack)
        await self._way.recover(cluster, healed)
        for one in asked:
            await self._recounted(ground, one)
        self._phase("check", None)

    def _asked(self, router: Router) -> _Asked:
        database, suffix = f"mongofault_{self._run}", router.name
        namespaces = {
            name: f"{database}_{name}_{suffix}.moved" if name.startswith(MOVED) else f"{database}.{name}_{suffix}"
            for name in dict.fromkeys(one.collection for one in self._case.operations)
        }
        deadline = self._parameters.hold + ANSWERED_AFTER
        return _Asked(router, Routed(self._recorder, router, namespaces, deadline=deadline), namespaces)

    # load

    async def _laid_out(self, ground: Ground, asked: _Asked) -> None:
        """The collections, and what the router is expected to do; of a kept cluster they go with the healing."""
        router, case = asked.router, self._case
        if self._parameters.cluster is not None:
            for database in {one.partition(".")[0] for one in asked.namespaces.values()}:
                await self._way.leave_no_data(ground, database)
        for name, namespace in asked.namespaces.items():
            make = ranges.make_unsharded if name.startswith(MOVED) else ranges.lay_out
            await make(ground.cluster, namespace, documents(case.operations, name))
        self._recorder.record(
            "routing.case",
            SOURCE,
            case=case.name,
            router=router.name,
            setting=router.setting,
            in_process=router.in_process,
            control=case.control,
            untold=case.untold,
            within=self._parameters.within,
            operations=[one.name for one in case.operations],
            expected=case.expected[router.setting].on(ground.cluster.server.version).recorded(),
        )

    # one round: from a router that knows all to one that has learnt it again

    async def _round(self, ground: Ground, asked: Sequence[_Asked], stack: AsyncExitStack) -> Mapping[str, bool]:
        self._phase("settle", None)
        for one in asked:
            await self._primed(one, stack)
        await self._read(asked, "primed")
        for one in asked:
            await self._stale(ground, one)
        await self._read(asked, "stale")
        moves = [asyncio.create_task(self._migrating(ground, one)) for one in asked if self._case.making == "migration"]
        try:
            healed = await self._held(ground, asked)
        except BaseException:
            for move in moves:
                move.cancel()
            await asyncio.gather(*moves, return_exceptions=True)
            raise
        await asyncio.gather(*(one.routed.answered() for one in asked), *moves)
        if self._case.making == "dummy" and not await ranges.pretended(ground.cluster, self._given_before):
            raise ClusterError("the error that was to be given for once was given to nobody")
        await self._read(asked, "released")
        return healed

    async def _primed(self, asked: _Asked, stack: AsyncExitStack) -> None:
        """The router knows the table, and a connection is open for each operation."""
        reads = [
            Operation(one.name, "find", one.region, one.belongs, one.collection)
            for one in self._case.operations
            if one.command != "insert"
        ]
        await asked.routed.prime(reads)
        await asked.routed.connect([one.name for one in self._case.operations], stack)

    async def _stale(self, ground: Ground, asked: _Asked) -> None:
        cluster = ground.cluster
        namespace = asked.namespaces.get("watched", "")
        match self._case.making:
            case "split":
                await ranges.split(cluster, namespace)
            case "move":
                await ranges.move_upper(cluster, namespace)
            case "dummy":
                self._given_before = await ranges.pretend(cluster, namespace, ground.ledger)
            case "recreate":
                await ranges.recreate(cluster, namespace, documents(self._case.operations, "watched"))
            case "primary":
                for name, moved in asked.namespaces.items():
                    if name.startswith(MOVED):
                        await ranges.move_primary(cluster, moved)

    async def _migrating(self, ground: Ground, asked: _Asked) -> None:
        """A move that runs into the fail point, once that is on."""
        donor = await primary_of(ground.cluster, ranges.Places.of(ground.cluster).b)
        await self._is_on(donor.host)
        await ranges.move_upper(ground.cluster, asked.namespaces["watched"])

    async def _is_on(self, host: str) -> None:
        point = self._case.point
        assert point is not None

        async def on() -> bool:
            async with admin.connected(host) as connection:
                return bool((await admin.fail_point(connection, point, deadline=ON_DEADLINE))["mode"])

        await admin.until(f"failpoint.{point} is on", on, deadline=ON_DEADLINE)

    # break, hold, release

    async def _held(self, ground: Ground, asked: Sequence[_Asked]) -> Mapping[str, bool]:
        self._phase("break", None)
        injections = await self._aimed(ground, asked) if self._case.holds else {}
        opened: list[str] = []
        healed: dict[str, bool] = {}
        acting: dict[str, asyncio.Task[Any]] = {}
        try:
            for identity, (injection, options) in injections.items():
                record_opened(self._recorder, SOURCE, injection, identity, options)
                opened.append(identity)
                acting[identity] = asyncio.create_task(injection.inject())
            for identity, (injection, _options) in injections.items():
                await self._acts(injection, acting[identity])
            await self._sent(ground, asked, acting)
            self._phase("hold", self._parameters.hold)
            if not injections:
                await asyncio.sleep(self._parameters.hold)  # who waits although nothing is held is looked at as long
            await asyncio.gather(
                *(
                    held(injection, self._parameters.hold, partial(record_lost, self._recorder, SOURCE, identity))
                    for identity, (injection, _options) in injections.items()
                )
            )
            self._phase("release", None)
            for one in asked:
                self._recorder.record(
                    "routing", SOURCE, router=one.router.name, what="released", pending=one.routed.pending()
                )
        finally:
            left = [task for task in acting.values() if not task.done()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
            for identity in opened:
                healed[identity] = await heal(self._recorder, SOURCE, injections[identity][0], identity)
        return healed

    async def _acts(self, injection: Injection, acting: asyncio.Task[Any]) -> None:
        """Some are proven by nothing but an operation that runs into them: these are sent once it is on."""

        async def acts() -> bool:
            return acting.done() or await injection.fault.active()

        await admin.until(f"{injection.fault.name} is on", acts, deadline=ON_DEADLINE)

    async def _sent(self, ground: Ground, asked: Sequence[_Asked], acting: Mapping[str, asyncio.Task[Any]]) -> None:
        """All operations of the case, in its order; those of one router beside those of another."""
        case = self._case
        if case.first is not None:
            for one in asked:
                one.routed.send(case.first)
        for identity, task in acting.items():
            await proven(self._recorder, SOURCE, identity, task)
        if case.holds and case.making != "migration":
            await asyncio.gather(*(self._refreshing(one) for one in asked))
        elif not case.holds:
            await asyncio.gather(*(one.routed.answered() for one in asked))
        await self._read(asked, "held")
        if case.probe is not None:
            await asyncio.gather(*(one.routed.send(case.probe) for one in asked))
        for one in asked:
            for operation in case.second:
                one.routed.send(operation)
        await asyncio.gather(*(one.routed.first_answered(GRACE) for one in asked))
        for one in asked:
            for operation in case.bystanders:
                one.routed.send(operation)
            self._recorder.record("routing", SOURCE, router=one.router.name, what="sent", pending=[])

    async def _refreshing(self, asked: _Asked) -> None:
        """Until the router is seen to wait for its refresh."""

        async def waits() -> bool:
            found = await watched.counters(asked.router.host)
            return any(found.get(name, 0) > 0 for name in watched.ACTIVE)

        await admin.until(f"{asked.router.name} waits for its refresh", waits, deadline=HELD_DEADLINE)
        self._recorder.record("routing", SOURCE, router=asked.router.name, what="held", pending=[])

    async def _aimed(self, ground: Ground, asked: Sequence[_Asked]) -> dict[str, tuple[Injection, list[str]]]:
        """What holds: a fault on each router, or one on the config server or the donor for all. Raises Refused."""
        cluster = ground.cluster
        targets: list[tuple[Member, str, list[str]]] = []
        if self._case.point is not None:
            donor = await primary_of(cluster, ranges.Places.of(cluster).b)
            targets = [(donor, "fail-point", [f"point={self._case.point}"])]
        elif self._parameters.hold_by == "fail-point":
            targets = [
                (nodes.node(cluster, one.router.name), "fail-point", [f"point={REFRESH_BLOCKED}"]) for one in asked
            ]
        else:
            assert cluster.topology.config is not None
            config = await primary_of(cluster, cluster.topology.config.name)
            name, options = self._config_fault()
            targets = [(config, name, options)]
        found = {}
        for target, name, options in targets:
            self._faults += 1
            found[f"f{self._faults}"] = (await aim(ground, target, name, options, None), options)
        return found

    def _config_fault(self) -> tuple[str, list[str]]:
        if self._parameters.hold_by != "fail-command":
            return {"freeze-config": "freeze", "kill-config": "kill"}[self._parameters.hold_by], []
        # A refresh is one aggregate on config.collections; switched off, the fail point wakes nobody (6.0.5).
        block = round((self._parameters.hold + BEFORE_HOLD) * 1000)
        return "fail-command", [
            "commands=aggregate", "namespace=config.collections", "failInternalCommands=yes", f"blockTimeMS={block}"
        ]  # fmt: skip

    # check

    async def _read(self, asked: Sequence[_Asked], when: str) -> None:
        hosts = {one.router.name: one.router.host for one in asked}
        await watched.read(self._recorder, {**hosts, **self._shards}, when)

    async def _recounted(self, ground: Ground, asked: _Asked) -> None:
        """What is in the collections, and what the router's log says of the one that was stale."""
        cluster = ground.cluster
        documents: list[Any] = []
        for namespace in asked.namespaces.values():
            documents += await stage.census(cluster, namespace)
        self._recorder.record("routing.documents", SOURCE, router=asked.router.name, documents=documents)
        log = nodes.node(cluster, asked.router.name).log_lines()
        watched.record_lines(self._recorder, asked.router.name, log, asked.namespaces.get("watched", "\0"))


def documents(operations: Sequence[Operation], collection: str) -> list[dict[str, Any]]:
    """What operations on a collection find there: each its own, by its name, but for those that insert it. Those of
    another case have other regions."""
    return [
        {"_id": one.name, "region": one.region, "seq": 0}
        for one in operations
        if one.collection == collection and one.command != "insert"
    ]


async def routers_of(ground: Ground) -> list[Router]:
    """A fine and a coarse router among the shards that hold no data, and a mongos where there is one: which is which
    they say themselves. Raises Refused where one is missing."""
    cluster = ground.cluster
    found: dict[str, Router] = {}
    for shard in cluster.topology.shards[HOLDING:]:
        primary = await primary_of(cluster, shard.name)
        fine = await _setting(primary.host)
        if fine is not None:
            setting = "fine" if fine else "coarse"
            found.setdefault(setting, Router(primary.name, primary.host, setting, in_process=True))  # type: ignore[arg-type]
    missing = [one for one in ("fine", "coarse") if one not in found]
    if missing:
        wanted = " and ".join(f"{SETTING}={str(one == 'fine').lower()}" for one in missing)
        raise Refused(f"not applicable: no shard past the third runs with {wanted}")
    routers = [found["fine"], found["coarse"]]
    if cluster.server.router == "mongos" and cluster.router is not None and cluster.router_process is not None:
        fine = await _setting(cluster.router)
        if fine is not None:
            routers.append(Router("router", cluster.router, "fine" if fine else "coarse", in_process=False))
    return routers


async def _setting(host: str) -> bool | None:
    """None where the server does not know of it."""
    async with admin.connected(host) as connection:
        try:
            reply = await connection.command("admin", {"getParameter": 1, SETTING: 1}, deadline=10)
        except CommandFailed:
            return None
    return bool(reply[SETTING])
