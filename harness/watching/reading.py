"""What the answers to `asking` mean: cursors of change streams, getMores, lookups, writes. Pure.

A stream is known by its session: a driver gives each stream one of its own, the router passes it on to the shards, and
the lookups of post-images carry it too (measured on 6.0.5), whether or not the application gave a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.watchers import inside
from harness.watchers.counters import at
from harness.watchers.currentop import GetMore, Lookup
from harness.watchers.currentop import read_ops as read_getmores
from harness.watchers.sends import WRITES, session_hex
from harness.watching.writes import Write, shape

SHORT: Final = 8
"""Hexadecimal digits of a session that name a stream."""
COMMENT_SHOWN: Final = 40
SCANNING: Final = 10.0
"""Yields a second from which a getMore that is overdue is taken to read the oplog, and not to wait. Measured on 6.0.5:
one that reads 600,000 foreign entries is 14 s past a maxTimeMS of 0.2 s on a busy machine, and yields 35 to 55 times a
second; one that hangs in a lookup yielded 6 times in 8 s."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A cursor of a stream on one member or router, as one look has it."""

    stream: str
    member: str
    documents: int
    batches: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer, its parts by what they are. `at` in ns. Getmores bear the names of their streams, lookups a session,
    and `sessions` has the streams by it. `internal`: names of streams by the sessions of lookups that a member sent,
    which is how a stream is known whose cursor nobody sees. `scanning`: opids of getMores that read and do not wait.
    `towards`: connections in use, where that was asked as well."""

    at: int
    legs: Sequence[Leg] = ()
    sessions: Mapping[str, str] = field(default_factory=dict)
    internal: Mapping[str, str] = field(default_factory=dict)
    getmores: Sequence[GetMore] = ()
    scanning: frozenset[int | str] = frozenset()
    lookups: Sequence[Lookup] = ()
    writes: Sequence[Write] = ()
    towards: Mapping[str, int] | None = None


def read(member: str, entries: Iterable[Mapping[str, Any]], now: int, *, router: bool = False) -> Reading:
    """`router`: writes are not read of it; they are inside the members alone."""
    entries = list(entries)
    tailing = [one for one in entries if at(one, "cursor.tailable")]
    running = [one for one in tailing if "getMore" in (one.get("command") or {})]
    getmores = []
    scanning = set()
    for one in running:
        for getmore in read_getmores(member, [one], "", now)[0]:
            getmores.append(replace(getmore, stream=stream_of(one)))
            if one.get("numYields", 0) >= SCANNING * max(getmore.seconds, 1.0):
                scanning.add(getmore.opid)
    return Reading(
        at=now,
        legs=[_leg(member, one) for one in tailing],
        sessions={_session(one): stream_of(one) for one in tailing},
        getmores=getmores,
        scanning=frozenset(scanning),
        lookups=[_lookup(member, one, now) for one in entries if is_lookup(one)],
        # A member that sends an aggregate says that it is no mongos (6.0.5); a client's says nothing of the kind.
        internal={
            _session(one): stream_of(one)
            for one in entries
            if is_lookup(one) and at(one, "command.fromMongos") is False
        },
        writes=[] if router else [*_writes(member, entries)],
    )


def stream_of(entry: Mapping[str, Any]) -> str:
    """What a stream is called here: its namespace, its session, and its comment if it has one."""
    namespace = str(entry.get("ns", "")).removesuffix(".$cmd.aggregate")
    collection = at(entry, "command.aggregate")
    if namespace.endswith(".$cmd") and isinstance(collection, str):
        namespace = f"{namespace.removesuffix('.$cmd')}.{collection}"
    comment = _comment(entry)
    return f"{namespace} {_session(entry)}" + (f" ({str(comment)[:COMMENT_SHOWN]})" if comment is not None else "")


def _session(entry: Mapping[str, Any]) -> str:
    session = session_hex(entry.get("lsid")) or session_hex(at(entry, "command.lsid"))
    return session[:SHORT] if session else f"cursor {at(entry, 'cursor.cursorId')}"


def is_lookup(entry: Mapping[str, Any]) -> bool:
    """Whether it reads one document by its key, and has waited for a moment of the cluster's time."""
    pipeline = at(entry, "command.pipeline")
    if not isinstance(pipeline, list) or len(pipeline) != 1 or "getMore" in entry.get("command", {}):
        return False
    match = pipeline[0].get("$match") if isinstance(pipeline[0], Mapping) else None
    return isinstance(match, Mapping) and "_id" in match and not isinstance(match["_id"], Mapping)


def _leg(member: str, entry: Mapping[str, Any]) -> Leg:
    cursor = entry["cursor"]
    return Leg(stream_of(entry), member, int(cursor.get("nDocsReturned", 0)), int(cursor.get("nBatchesReturned", 0)))


def _lookup(member: str, entry: Mapping[str, Any], now: int) -> Lookup:
    seconds = round(entry.get("microsecs_running", 0) / 1e6, 3)
    return Lookup(member, entry["opid"], seconds, _comment(entry), _session(entry), now)


def _comment(entry: Mapping[str, Any]) -> Any:
    """As people read it: of our own runs' comments the stream's name."""
    comment = at(entry, "command.comment")
    if comment is None:
        comment = at(entry, "cursor.originatingCommand.comment")
    return comment.get("stream", dict(comment)) if isinstance(comment, Mapping) else comment


def _writes(member: str, entries: Iterable[Mapping[str, Any]]) -> Iterable[Write]:
    for one in entries:
        command = one.get("command") or {}
        if one.get("op") in ("insert", "update", "remove") or any(verb in WRITES for verb in command):
            for op in inside.read_ops(member, [one], ""):
                yield Write(op, shape(one))
