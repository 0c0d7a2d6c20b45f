"""`$currentOp` of every member, and the router's own table: getMores that hang, lookups in flight and where they sit.

A frozen member cannot be asked and is passed over; nobody else's answer waits for its.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from clusters.wire.connection import CommandFailed
from harness.history import Recorder
from harness.measures import DEFAULT_AWAIT_MS, overdue
from harness.watchers.canary import READ_ANYWHERE, ROUTER
from harness.watchers.line import FRESH, PATIENCE, Line, Lines, paused
from harness.watchers.watched import WatchedMember

SOURCE: Final = "currentOp"

EVERY: Final = 1.0
URGENT: Final = 0.3
"""Seconds from one poll to the next; the shorter one while something is suspected."""

PAST: Final = 0.25
"""Seconds past its `maxTimeMS` from which a getMore is worth a line; less is ordinary."""

COMMAND_NOT_FOUND: Final = 59


@dataclass(frozen=True, slots=True)
class GetMore:
    """A getMore of a tailable cursor, running. From the router's table `member` is the one it waits for."""

    member: str
    opid: int | str
    seconds: float
    max_time_ms: int
    comment: Any
    stream: str | None
    source: Literal["currentOp", "router"]
    at: int

    @property
    def overdue(self) -> float:
        """Seconds past its maxTimeMS."""
        return overdue(self.seconds, self.max_time_ms)

    def fields(self) -> dict[str, Any]:
        """As the history has it, beside its source."""
        return {
            "member": self.member, "opid": self.opid, "seconds": self.seconds, "max_time_ms": self.max_time_ms,
            "comment": self.comment, "stream": self.stream,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lookup:
    """A post-image lookup, seen on the member that is to answer it."""

    member: str
    opid: int | str
    seconds: float
    comment: Any
    stream: str
    at: int


def read_ops(member: str, ops: Iterable[Mapping[str, Any]], run: str, at: int) -> tuple[list[GetMore], list[Lookup]]:
    """What the entries of one `$currentOp` mean: getMores of change streams (anybody's), lookups of this run's."""
    getmores: list[GetMore] = []
    lookups: list[Lookup] = []
    for op in ops:
        command = op.get("command", {})
        cursor = op.get("cursor", {})
        comment = command.get("comment", cursor.get("originatingCommand", {}).get("comment"))
        stream = comment.get("stream") if isinstance(comment, Mapping) and comment.get("run") == run else None
        seconds = round(op.get("microsecs_running", 0) / 1e6, 3)
        if "getMore" in command:
            if cursor.get("tailable") and not str(op.get("ns", "")).startswith("local."):
                limit = int(command.get("maxTimeMS", DEFAULT_AWAIT_MS))
                getmores.append(GetMore(member, op["opid"], seconds, limit, comment, stream, "currentOp", at))
        elif "aggregate" in command and stream is not None and not _opens_a_stream(command):
            lookups.append(Lookup(member, op["opid"], seconds, comment, stream, at))
    return getmores, lookups


def read_router(
    streams: Iterable[Mapping[str, Any]], run: str, at: int, names: Mapping[str, str] | None = None
) -> list[GetMore]:
    """The stand-in's own table of the getMores it has out; it names members by host, `names` has their names."""
    found = []
    for entry in streams:
        comment = entry.get("comment")
        stream = comment.get("stream") if isinstance(comment, Mapping) and comment.get("run") == run else None
        host = str(entry.get("member", ""))
        limit = int(entry.get("maxTimeMS") or DEFAULT_AWAIT_MS)
        opid = entry.get("opid", f"{entry.get('shard', '')}:{stream}")
        seconds = round(float(entry.get("seconds", 0.0)), 3)
        member = (names or {}).get(host, host)
        found.append(GetMore(member, opid, seconds, limit, comment, stream, "router", at))
    return found


class CurrentOp:
    """Polls; keeps the last sightings of each source. `urgent` says whether to poll at the shorter interval."""

    def __init__(
        self,
        recorder: Recorder,
        members: Sequence[WatchedMember],
        run: str,
        urgent: Callable[[], bool],
        *,
        router: str | None = None,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._urgent = urgent
        self._names = {member.host: member.name for member in members}
        hosts = {member.name: member.host for member in members if member.holds_data}
        self._lines = Lines(hosts if router is None else {**hosts, ROUTER: router})
        self._stand_in = True
        self._getmores: dict[str, list[GetMore]] = {}
        self._lookups: dict[str, list[Lookup]] = {}
        self._written: dict[tuple[str, int | str], float] = {}

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        await self._lines.watch(self._poll, self._lost, lambda _name: paused(EVERY, URGENT, self._urgent))

    async def close(self) -> None:
        await self._lines.close()

    def getmores(self) -> list[GetMore]:
        """All getMores of change streams seen of late, hanging or not."""
        since = self._recorder.now() - FRESH
        return [one for sightings in self._getmores.values() for one in sightings if one.at >= since]

    def lookups(self) -> list[Lookup]:
        since = self._recorder.now() - FRESH
        return [one for sightings in self._lookups.values() for one in sightings if one.at >= since]

    async def _poll(self, name: str, line: Line) -> None:
        await (self._poll_router(line) if name == ROUTER else self._poll_member(name, line))

    def _lost(self, name: str) -> None:
        """Nothing is to be had from this one now."""
        self._getmores.pop(name, None)
        self._lookups.pop(name, None)

    async def _poll_member(self, name: str, line: Line) -> None:
        reply = await line.ask("admin", current_op(self._run), patience=PATIENCE)
        getmores, lookups = read_ops(name, reply["cursor"]["firstBatch"], self._run, self._recorder.now())
        self._saw(name, getmores, lookups)

    async def _poll_router(self, line: Line) -> None:
        if self._stand_in:
            try:
                reply = await line.ask("admin", {"mongofaultRouterStatus": 1}, patience=PATIENCE)
            except CommandFailed as failure:
                if failure.code != COMMAND_NOT_FOUND:
                    raise
                # A real mongos.
                self._stand_in = False
            else:
                getmores = read_router(reply.get("streams", ()), self._run, self._recorder.now(), self._names)
                self._saw(ROUTER, getmores, [])
                return
        reply = await line.ask("admin", current_op(self._run, local=True), patience=PATIENCE)
        getmores, lookups = read_ops(ROUTER, reply["cursor"]["firstBatch"], self._run, self._recorder.now())
        self._saw(ROUTER, getmores, lookups)

    def _saw(self, source: str, getmores: list[GetMore], lookups: list[Lookup]) -> None:
        self._getmores[source] = getmores
        self._lookups[source] = lookups
        for getmore in getmores:
            if getmore.overdue > PAST and self._news(source, getmore.opid, getmore.seconds):
                self._recorder.record("getmore", getmore.source, **getmore.fields())
        for lookup in lookups:
            if lookup.seconds > PAST and self._news(source, lookup.opid, lookup.seconds):
                self._recorder.record(
                    "lookup", SOURCE, member=lookup.member, opid=lookup.opid, seconds=lookup.seconds,
                    comment=lookup.comment, stream=lookup.stream,
                )  # fmt: skip

    def _news(self, source: str, opid: int | str, seconds: float) -> bool:
        """Whether a sighting is worth a line: the first one of an op, then one a second."""
        before = self._written.get((source, opid))
        if before is not None and 0 <= seconds - before < 1.0:
            return False
        self._written[source, opid] = seconds
        return True


def current_op(run: str, *, local: bool = False) -> dict[str, Any]:
    """The command that finds what `read_ops` reads, filtered by the server."""
    stage = {"allUsers": True, "idleConnections": False, "idleSessions": False, **({"localOps": True} if local else {})}
    wanted = [
        {"command.getMore": {"$exists": True}, "cursor.tailable": True},
        {"command.comment.run": run, "command.comment.stream": {"$exists": True}},
    ]
    kept = ("opid", "ns", "microsecs_running", "command", "cursor.tailable", "cursor.originatingCommand.comment")
    return {
        "aggregate": 1,
        "pipeline": [{"$currentOp": stage}, {"$match": {"$or": wanted}}, {"$project": dict.fromkeys(kept, 1)}],
        "cursor": {"batchSize": 1000},
        **READ_ANYWHERE,
    }


def _opens_a_stream(command: Mapping[str, Any]) -> bool:
    pipeline = command.get("pipeline") or [{}]
    return isinstance(pipeline, list) and "$changeStream" in pipeline[0]
