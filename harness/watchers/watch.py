"""All watchers of a run, wired to its history: start them, ask for the live picture, stop them.

They only look: nothing here writes to the watched cluster, and nothing here knows what was broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from clusters.topology import Role
from harness.drivers.errors import one_line
from harness.history import Event, Recorder
from harness.measures import OVERDUE
from harness.watchers.alarms import Alarm, Alarms, Evidence
from harness.watchers.canary import Canary, Probe, View
from harness.watchers.currentop import CurrentOp
from harness.watchers.load import Load
from harness.watchers.peers import Peers
from harness.watchers.pools import Pools
from harness.watchers.progress import THRESHOLD, Progress, StreamState
from harness.watchers.pulse import REPORTED, Pulse
from harness.watchers.tokens import Tokens
from harness.watchers.usage import Usage
from harness.watchers.watched import WatchedMember

SOURCE: Final = "watchers"

TICK: Final = 0.1
"""Seconds between two looks at the streams' progress."""

HEAD_START: Final = 1.5
"""Seconds before the threshold from which the members are asked more often: the evidence is there when it passes."""

PROMISED: Final = 2.0
"""Seconds past the no-op interval by which a no-op has been written, replicated and read by every stream. The
interval is counted from the last write, so that a shard fallen idle takes up to twice as long as it says."""


class Watchers:
    """`threshold` in seconds; `noop_interval` as the members run with (`periodicNoopIntervalSecs`); `processes` tells
    ids by group, for what the run costs.

    A shard is taken to be called like its set, in the writes as in `members`.
    """

    def __init__(
        self,
        recorder: Recorder,
        members: Sequence[WatchedMember],
        namespace: str,
        run: str,
        *,
        router: str | None = None,
        processes: Callable[[], Mapping[str, Sequence[int]]] = dict,
        threshold: float = THRESHOLD,
        noop_interval: float = 10.0,
    ) -> None:
        self._recorder = recorder
        self._pulse = Pulse()
        self._progress = Progress(
            threshold=threshold,
            promise=noop_interval + PROMISED,
            shards={member.set_name for member in members if member.role is Role.SHARD},
        )
        self._load = Load()
        self._tokens = Tokens(window=noop_interval + 2.0)
        self._alarms = Alarms(members, threshold=threshold)
        self._canary = Canary(recorder, members, namespace, run, router=router)
        self._currentop = CurrentOp(recorder, members, run, self._urgent, router=router)
        self._peers = Peers(recorder, members)
        self._pools = Pools(recorder, members, self._urgent, self._holders, self._peers.monitors)
        self._usage = Usage(recorder, processes)
        self._task: asyncio.Task[None] | None = None
        self._all_delivered = asyncio.Event()
        recorder.subscribe(self._feed)

    async def start(self) -> None:
        """Streams opened and writes invoked from here on are followed; so start before the load."""
        self._task = asyncio.create_task(self._watch(), name="watchers")

    async def stop(self) -> None:
        """Within a second or so, also with frozen members. Raises what ended the watchers out of turn."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        await asyncio.gather(self._canary.close(), self._currentop.close(), self._pools.close(), self._peers.close())
        if not task.cancelled() and (error := task.exception()) is not None:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise RuntimeError(f"the watchers ended out of turn: {one_line(error)}") from error

    def states(self) -> Mapping[str, StreamState]:
        """The streams as they are now."""
        return self._progress.states()

    def alarms(self) -> Mapping[str, Alarm]:
        """The alarms that are open now, by stream."""
        return dict(self._alarms.open)

    def views(self) -> Mapping[str, Mapping[Probe, View]]:
        """The last outcome of every probe of every member, the router's hello included."""
        return self._canary.views

    async def delivered(self, *, deadline: float) -> bool:
        """Whether within `deadline` seconds every stream has delivered every mark it owes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                while self._progress.outstanding:
                    self._all_delivered.clear()
                    await self._all_delivered.wait()
        return not self._progress.outstanding

    def _feed(self, event: Event) -> None:
        self._progress.feed(event)
        self._load.feed(event)
        self._tokens.feed(event)
        if event.kind == "stream.event" and not self._progress.outstanding:
            self._all_delivered.set()

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._canary.watch())
            tasks.create_task(self._currentop.watch())
            tasks.create_task(self._pools.watch())
            tasks.create_task(self._peers.watch())
            tasks.create_task(self._usage.watch())
            tasks.create_task(self._look())

    async def _look(self) -> None:
        while True:
            due = self._recorder.now() + int(TICK * 1e9)
            await asyncio.sleep(TICK)
            now = self._recorder.now()
            lag = self._pulse.woke(due, now)
            if lag >= REPORTED:
                self._recorder.record("loop.lag", SOURCE, seconds=round(lag, 3))
            self._judge(now)

    def _judge(self, now: int) -> None:
        for state in self._progress.judge(now, self._excused):
            self._recorder.record(
                "stream.state", SOURCE,
                stream=state.stream, state=state.state, since=state.since, outstanding=state.outstanding,
            )  # fmt: skip
        self._tokens.cluster_time(self._canary.clock.seconds, now)
        for token in self._tokens.judge(now):
            self._recorder.record(
                "token", SOURCE,
                stream=token.stream, moving=token.moving, cluster_time_moving=token.cluster_time_moving,
                behind=token.behind,
            )  # fmt: skip
        raised, completed, cleared = self._alarms.judge(self._progress.states(), self._evidence(), now)
        for alarm in raised:
            self._recorder.record("alarm", SOURCE, **alarm.fields())
        for alarm in completed:
            self._recorder.record("alarm", SOURCE, **alarm.fields(), update=True)
        for stream in cleared:
            self._recorder.record("alarm.cleared", SOURCE, stream=stream)

    def _excused(self, since: int, now: int) -> float:
        return self._pulse.deaf(since, now) + self._load.slack(now)

    def _urgent(self) -> bool:
        return self._progress.nearest_silence(self._recorder.now()) > self._progress.threshold - HEAD_START

    def _holders(self) -> set[str]:
        return {getmore.member for getmore in self._currentop.getmores() if getmore.overdue > OVERDUE / 2}

    def _evidence(self) -> Evidence:
        getmores = self._currentop.getmores()
        return Evidence(
            getmores=getmores,
            lookups=self._currentop.lookups(),
            towards={member: self._pools.towards(member) for member in {one.member for one in getmores}},
            views=self._canary.views,
        )
