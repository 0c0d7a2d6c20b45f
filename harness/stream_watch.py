"""Change streams of anybody on a cluster, watched from outside: which fell silent, and for which member they wait.

A getMore of a stream is answered after its maxTimeMS at the latest, with nothing if there is nothing. One that is not,
hangs; no event has to be owed for that. Streams are told apart by the comment they were opened with: give them one.

It reads `$currentOp`, pools and canaries, and writes nothing to the cluster.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from clusters.errors import ClusterError
from harness.ground import Ground
from harness.history import Recorder
from harness.measures import NS, OVERDUE, UNANSWERED
from harness.watchers.alarms import Alarm, Alarms, Evidence
from harness.watchers.canary import Canary
from harness.watchers.currentop import EVERY, CurrentOp, GetMore
from harness.watchers.line import FRESH
from harness.watchers.peers import Peers
from harness.watchers.pools import Pools
from harness.watchers.progress import StreamState
from harness.watchers.watched import WatchedMember

TICK: Final = 0.1
"""Seconds between two looks."""
WITHIN: Final = 30.0
"""Seconds that a stream has to fall silent, or to come back, where nobody says more."""
NAMED_WITHIN: Final = 3.0
"""Seconds that those who wait for silent streams are kept waiting for the names of the members waited for."""
ANY: Final = "mongofault.canary"
"""The namespace that canaries aggregate on where nobody names the streams' own."""


@dataclass(frozen=True, slots=True)
class SilentStream:
    """A stream that gets no answer. `seconds` for which its getMore runs against a limit of `max_time_ms`.

    `stream` the comment it was opened with (its `stream`, where that is a document), else opid and member; `member`
    where the getMore is; `waits_for` whom that waits for, None where nobody can tell; `known_by` how it is known.
    """

    stream: str
    member: str
    opid: int | str
    seconds: float
    max_time_ms: int
    waits_for: str | None
    known_by: str | None

    def __str__(self) -> str:
        waits = f"; waits for {self.waits_for} ({self.known_by})" if self.waits_for else ""
        return (
            f"{self.stream}: getMore {self.opid} on {self.member} runs for {self.seconds:.1f} s, its maxTimeMS is "
            f"{self.max_time_ms} ms{waits}"
        )


class StreamsNotSo(ClusterError):
    """The streams did not become what was waited for by the deadline: says what they were."""


class StreamWatch:
    """Get it from `stream_watch`."""

    def __init__(self, ground: Ground, recorder: Recorder, namespace: str) -> None:
        self._recorder = recorder
        members = [WatchedMember.of(one) for one in ground.cluster.members.values()]
        router = ground.cluster.router
        self._members = {one.name for one in members}
        self._alarms = Alarms(members, threshold=0.0)
        self._canary = Canary(recorder, members, namespace, "stream-watch", router=router)
        self._currentop = CurrentOp(recorder, members, "", self._urgent, router=router)
        self._peers = Peers(recorder, members)
        self._pools = Pools(recorder, members, self._urgent, self._holders, self._peers.monitors)
        self._last: dict[str, list[GetMore]] = {}
        """Per member the getMores that were there when it last answered: a frozen one cannot be asked any more."""
        self._open: dict[str, Alarm] = {}
        self._seen: dict[str, SilentStream] = {}
        self._watched: set[str] = set()
        self._changed = asyncio.Event()

    def silent(self) -> list[SilentStream]:
        """The streams that get no answer now."""
        return [self._seen[label] for label in self._open]

    def seen(self) -> list[SilentStream]:
        """All that got none at some time since the watch began, as they were last seen."""
        return list(self._seen.values())

    async def until_watched(self, *streams: str, within: float = WITHIN) -> None:
        """Returns when a getMore of each of these streams was seen. Raises StreamsNotSo after `within` seconds.

        A member is asked once a second: what is frozen sooner than that takes its streams with it, unseen.
        """
        await self._until(lambda: self._watched.issuperset(streams), f"{', '.join(streams)} seen", within)

    async def until_silent(self, count: int = 1, *, within: float = WITHIN) -> list[SilentStream]:
        """Those that are silent, as soon as `count` are and it is known of each for whom it waits, or nobody can tell.

        Raises StreamsNotSo after `within` seconds.
        """
        await self._until(lambda: len(self._open) >= count, f"{count} streams silent", within)
        with suppress(StreamsNotSo):
            await self._until(lambda: all(one.waits_for for one in self._open.values()), "all named", NAMED_WITHIN)
        return self.silent()

    async def until_none_silent(self, *, within: float = WITHIN) -> None:
        """Returns when every getMore is answered again, or gone. Raises StreamsNotSo after `within` seconds."""
        await self._until(lambda: not self._open, "no stream silent", within)

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        async with asyncio.TaskGroup() as tasks:
            for one in (self._canary, self._currentop, self._pools, self._peers):
                tasks.create_task(one.watch())
            tasks.create_task(self._look())

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in (self._canary, self._currentop, self._pools, self._peers)))

    async def _until(self, so: Callable[[], bool], wanted: str, within: float) -> None:
        end = time.monotonic() + within
        while not so():
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    await self._changed.wait()
            except TimeoutError:
                found = "; ".join(str(one) for one in self.silent()) or "none is"
                raise StreamsNotSo(f"expected {wanted} within {within:g} s; silent: {found}") from None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._judge(self._recorder.now())

    def _judge(self, now: int) -> None:
        fresh = self._currentop.getmores()
        views = self._canary.views
        for name in self._members:
            seen = [one for one in fresh if one.member == name and one.source == "currentOp"]
            if seen or self._answers_without(name):
                self._last[name] = seen
        unheard = list(self._unheard(fresh, now))
        getmores = named([*fresh, *unheard])
        self._watched.update(one.stream for one in getmores if one.stream is not None)
        late = {one.stream: one for one in sorted(getmores, key=lambda one: one.overdue) if one.overdue > OVERDUE}
        states = {
            label: StreamState(label, "silent", now - int(one.overdue * NS), 0, 0)
            for label, one in late.items()
            if label is not None
        }
        towards = {member: self._pools.towards(member) for member in {one.member for one in getmores}}
        evidence = Evidence(getmores=getmores, towards=towards, views=views)
        raised, completed, cleared = self._alarms.judge(states, evidence, now)
        there = {one.member: self._known_of(one.member) for one in unheard}
        raised, completed = ([_standing_on(one, there) for one in some] for some in (raised, completed))
        for alarm in [*raised, *completed]:
            update = {"update": True} if alarm in completed else {}
            self._recorder.record("alarm", UNANSWERED, **alarm.fields(), **update)
        for label in cleared:
            self._recorder.record("alarm.cleared", UNANSWERED, stream=label)
        self._open = {label: _standing_on(one, there) for label, one in self._alarms.open.items()}
        for label, alarm in self._open.items():
            # Of a getMore that hangs on the longest was seen last.
            self._seen[label] = self._told(replace(alarm, getmore=late.get(label, alarm.getmore)))
        self._changed.set()

    def _answers_without(self, name: str) -> bool:
        """Whether the member has answered since for longer than it takes to see what is there."""
        hello = self._canary.views.get(name, {}).get("hello")
        since = max((one.at for one in self._last.get(name, ())), default=0)
        return hello is not None and hello.ok and hello.at > since + FRESH + int(EVERY * NS)

    def _unheard(self, fresh: Sequence[GetMore], now: int) -> Iterable[GetMore]:
        """The getMores on members that do not answer, as old as they are by now if they are still there."""
        heard = {one.member for one in fresh}
        for name, last in self._last.items():
            hello = self._canary.views.get(name, {}).get("hello")
            if name not in heard and hello is not None and not hello.ok:
                for one in last:
                    yield replace(one, seconds=round(one.seconds + (now - one.at) / NS, 3), at=now)

    def _known_of(self, member: str) -> str:
        failing = [probe for probe, view in self._canary.views[member].items() if not view.ok]
        return f"its getMore was last seen there; canary: no {', '.join(failing)}"

    def _told(self, alarm: Alarm) -> SilentStream:
        getmore = alarm.getmore
        assert getmore is not None  # it is what the stream is silent by
        return SilentStream(
            alarm.stream,
            getmore.member,
            getmore.opid,
            getmore.seconds,
            getmore.max_time_ms,
            alarm.waits_for,
            alarm.known_by,
        )

    def _urgent(self) -> bool:
        return any(one.overdue > 0 for one in self._currentop.getmores())

    def _holders(self) -> set[str]:
        return {one.member for one in self._currentop.getmores() if one.overdue > OVERDUE / 2}


def named(getmores: Iterable[GetMore]) -> list[GetMore]:
    """The same, each with the name of its stream: the comment's, else a name of its own.

    Of streams without a comment the router's table tells nothing that the members do not, as long as they answer.
    """
    found = list(getmores)
    told = {one.member for one in found if one.source == "currentOp"}
    return [
        replace(one, stream=_label(one))
        for one in found
        if one.comment is not None or one.source == "currentOp" or one.member not in told
    ]


def _standing_on(alarm: Alarm, there: Mapping[str, str]) -> Alarm:
    """An alarm on a stream that stands on a member which does not answer: that is the one it waits for."""
    if alarm.waits_for is not None or alarm.getmore is None or alarm.getmore.member not in there:
        return alarm
    return replace(alarm, waits_for=alarm.getmore.member, known_by=there[alarm.getmore.member])


def _label(one: GetMore) -> str:
    comment = one.comment
    if comment is None:
        return f"opid {one.opid} on {one.member}"
    if isinstance(comment, Mapping) and "stream" in comment:
        return str(comment["stream"])
    return comment if isinstance(comment, str) else str(comment)


@asynccontextmanager
async def stream_watch(ground: Ground, namespace: str = ANY) -> AsyncIterator[StreamWatch]:
    """All change streams on the cluster are watched within the block, whoever opened them.

    `namespace`: theirs, where a fault strikes it alone; the canaries then look at it as the lookups do. What is seen
    goes into the cluster's history, where one is kept. Raises ClusterError where the watching itself ended early.
    """
    with tempfile.TemporaryDirectory(prefix="mongofault-watch-") as directory:
        kept = ground.history
        recorder = kept.recorder if kept is not None else Recorder(Path(directory) / "history.jsonl")
        watch = StreamWatch(ground, recorder, namespace)
        task = asyncio.create_task(watch.watch(), name="stream watch")
        try:
            yield watch
        finally:
            task.cancel()
            await asyncio.wait([task])
            await watch.close()
            if kept is None:
                recorder.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise ClusterError(f"the watching of streams ended out of turn: {error}") from error
