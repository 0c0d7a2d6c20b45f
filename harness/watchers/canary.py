"""Canaries: every member is asked, once a second, four things of its own; which of them it answers tells its state.

A frozen member answers nothing, one whose replication stands still all but the causal read, a partly stalled one all
but what is stalled. A canary sees members only; what a stream waits for is for others to find out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bson.timestamp import Timestamp

from clusters import ready
from clusters.wire.connection import CommandFailed, ConnectionLost
from harness.drivers.errors import one_line
from harness.history import Recorder
from harness.watchers.line import Line, StillWaiting
from harness.watchers.watched import WatchedMember

SOURCE: Final = "canary"
Probe = Literal["hello", "find", "causal", "aggregate", "currentOp"]
PROBES: Final[tuple[Probe, ...]] = ("hello", "find", "causal", "aggregate")

EVERY: Final = 1.0
PATIENCE: Final = 2.0
"""Seconds from one round to the next, and until a probe counts as failed."""

ROUTER: Final = "router"
"""The router's name among the members; its set is its own."""

READ_ANYWHERE: Final = {"$readPreference": {"mode": "secondaryPreferred"}}
"""A secondary asked directly serves no read without it."""

SERVER_LIMIT_MS: Final = 1500
"""`maxTimeMS` of a probe. A member that only lags gives the probe up by itself then; one that stalls ignores it."""


@dataclass(frozen=True, slots=True)
class View:
    """The last outcome of one probe. `parked`: the question is still out. `at` and `since` are run time in ns:
    of this outcome, and of the first one in a row that was like it, good or bad."""

    ok: bool
    seconds: float
    error: str | None
    parked: bool
    at: int
    since: int


@dataclass(slots=True)
class ClusterClock:
    """The newest times known of a cluster: cluster time for all, and per set the primary's last operation."""

    gossip: Mapping[str, Any] | None = None
    operation: dict[str, Timestamp] = field(default_factory=dict)

    def heard(self, set_name: str, reply: Mapping[str, Any]) -> None:
        """Learn from any reply; the operation time only from a writable primary's hello."""
        newest = reply.get("$clusterTime")
        if newest is not None and (self.gossip is None or newest["clusterTime"] > self.gossip["clusterTime"]):
            self.gossip = newest
        time = reply.get("operationTime")
        if reply.get("isWritablePrimary") and time is not None:
            self.operation[set_name] = max(time, self.operation.get(set_name, time))

    @property
    def seconds(self) -> int | None:
        """Cluster time in whole seconds."""
        return None if self.gossip is None else int(self.gossip["clusterTime"].time)


class Canary:
    """All probes of all members; a probe that gets no answer is parked and not repeated until it has one."""

    def __init__(
        self,
        recorder: Recorder,
        members: Iterable[WatchedMember],
        namespace: str,
        run: str,
        *,
        router: str | None = None,
    ) -> None:
        self.clock = ClusterClock()
        self.views: dict[str, dict[Probe, View]] = {}
        self._recorder = recorder
        self._namespace = namespace
        self._run = run
        self._probes = [
            _Probe(member.name, member.set_name, probe, Line(member.host), Line(member.host))
            for member in members
            for probe in PROBES
            if member.holds_data or probe in ("hello", "find")
        ]
        if router is not None:
            self._probes.append(_Probe(ROUTER, ROUTER, "hello", Line(router), Line(router)))

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        async with asyncio.TaskGroup() as tasks:
            for number, probe in enumerate(self._probes):
                # Spread over the interval: all at once would be a burst of work on a machine that has two cores.
                tasks.create_task(
                    self._watch(probe, offset=EVERY * number / len(self._probes)), name=f"canary {probe.member}"
                )

    async def close(self) -> None:
        await asyncio.gather(*(line.close() for probe in self._probes for line in (probe.line, probe.checking)))

    async def _watch(self, probe: _Probe, *, offset: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + offset
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            due = max(due + EVERY, loop.time() + EVERY / 2)
            if probe.line.busy:
                # Parked since an earlier round: its answer is what we wait for, a second question would only pile up.
                await probe.line.answered(patience=EVERY)
                probe.left_behind = not probe.line.busy
            elif not await self._left_behind(probe):
                await self._ask(probe)

    async def _left_behind(self, probe: _Probe) -> bool:
        """Whether an earlier question still runs on the member although its connection is gone, or its answer came."""
        if probe.left_behind and probe.probe != "hello":
            mine = {"command.comment.run": self._run, "command.comment.canary": probe.probe}
            pipeline = [{"$currentOp": {"allUsers": True}}, {"$match": mine}, {"$limit": 1}, {"$project": {"opid": 1}}]
            ask = {"aggregate": 1, "pipeline": pipeline, "cursor": {}, **READ_ANYWHERE}
            try:
                reply = await probe.checking.ask("admin", ask, patience=PATIENCE)
            except StillWaiting:
                return True
            except (ConnectionLost, CommandFailed):
                return False
            probe.left_behind = bool(reply["cursor"]["firstBatch"])
        return probe.left_behind and probe.probe != "hello"

    async def _ask(self, probe: _Probe) -> None:
        question = self._question(probe)
        if question is None:
            return
        loop = asyncio.get_running_loop()
        start = loop.time()
        error: str | None = None
        parked = False
        try:
            self.clock.heard(probe.set_name, await probe.line.ask(*question, patience=PATIENCE))
            probe.left_behind = False
        except StillWaiting:
            parked = True
            error = f"no answer within {PATIENCE:g} s"
        except CommandFailed as failure:
            self.clock.heard(probe.set_name, failure.reply)
            error = f"{failure.code} {failure.code_name}"
        except ConnectionLost as lost:
            probe.left_behind = True
            error = one_line(lost)
        now = self._recorder.now()
        views = self.views.setdefault(probe.member, {})
        before = views.get(probe.probe)
        since = before.since if before is not None and before.ok == (error is None) else now
        view = View(error is None, round(loop.time() - start, 6), error, parked, now, since)
        views[probe.probe] = view
        self._recorder.record(
            "canary", SOURCE, member=probe.member, probe=probe.probe,
            ok=view.ok, seconds=view.seconds, error=error, parked=parked,
        )  # fmt: skip

    def _question(self, probe: _Probe) -> tuple[str, dict[str, Any]] | None:
        """Database and command; None for a causal read as long as no operation time of the primary is known."""
        if probe.probe == "hello":
            return "admin", {"hello": 1}
        common = {
            "maxTimeMS": SERVER_LIMIT_MS, "comment": {"run": self._run, "canary": probe.probe}, **READ_ANYWHERE,
        }  # fmt: skip
        one_id = {"filter": {}, "limit": 1, "singleBatch": True, "projection": {"_id": 1}}
        database, _, collection = self._namespace.partition(".")
        if probe.probe == "find":
            return database, {"find": collection, **one_id, **common}
        if probe.probe == "aggregate":
            pipeline = [{"$limit": 1}, {"$project": {"_id": 1}}]
            return database, {"aggregate": collection, "pipeline": pipeline, "cursor": {}, **common}
        after = self.clock.operation.get(probe.set_name)
        if after is None:
            return None
        concern = {"level": "majority", "afterClusterTime": after}
        # A member does not wait for a time it has never heard of: the cluster time goes along, as a driver's would.
        return ready.DATABASE, {
            "find": ready.CANARY, **one_id, **common, "readConcern": concern, "$clusterTime": self.clock.gossip,
        }  # fmt: skip


@dataclass(slots=True)
class _Probe:
    member: str
    set_name: str
    probe: Probe
    line: Line
    checking: Line
    left_behind: bool = False
    """The last question may still run on the member with nobody waiting for it."""
