"""Whom lookups without a tag go to: a random one of the members near enough to the one that looks up.

Makes all of them near and waits until the looking-up members have noticed; breaks nothing. On a busy machine the round
trips of the start-up, averaged over many pings of 10 s each, keep most members out of the window for a minute or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from clusters import admin
from clusters.cluster import Cluster, data_members, of_set
from clusters.errors import ClusterError
from clusters.guard import FailPointOff
from clusters.liveness import together
from clusters.member import Member
from clusters.wire.connection import Connection

ROUND_TRIPS: Final = "serverPingMonitorSetRTT"
"""Fail point of 4.4 to 6.0: `{"address:port": microseconds}` instead of the measured ones. Not
`sdamServerSelectorIgnoreLatencyWindow`: that also skips the shuffle, every lookup goes to the first secondary then."""
ROUND_TRIP_US: Final = 500

WINDOW_MS: Final = 15
"""Lookups go to secondaries at most this much slower than the nearest one (server parameter localThresholdMs)."""

SETTLED_DEADLINE: Final = 180.0
"""Seconds. A first round trip of a second, made under the load of the start, needs 19 pings to fall into the window:
each weighs a fifth (measured on 6.0.5: about 80 s on a machine less busy)."""
LOOK_EVERY: Final = 2.0
ANSWER_DEADLINE: Final = 30.0
"""Seconds for one answer, on a machine that twenty members have for their start."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Of one looking-up member: the members of its set that a lookup may go to, and the streams it looks up for."""

    member: str
    set_name: str
    window: tuple[str, ...]
    streams: tuple[str, ...]


def undo_even(cluster: Cluster) -> list[FailPointOff]:
    """What takes `even` back."""
    return [FailPointOff(member.host, ROUND_TRIPS) for member in data_members(cluster)]


async def even(cluster: Cluster) -> None:
    """From now on every member's pings say that all others are equally near."""
    same = {member.host: ROUND_TRIP_US for member in data_members(cluster)}

    async def tell(member: Member) -> None:
        async with admin.connected(member.host, deadline=ANSWER_DEADLINE) as connection:
            command = {"configureFailPoint": ROUND_TRIPS, "mode": "alwaysOn", "data": same}
            await connection.command("admin", command, deadline=ANSWER_DEADLINE)

    await together(*(tell(member) for member in data_members(cluster)))


async def settled(cluster: Cluster, run: str) -> list[Selection]:
    """Wait until every member that looks up for streams of this run has all secondaries in its window."""
    found: list[Selection] = []

    def short() -> list[str]:
        wanted = {one.member: len(of_set(cluster, one.set_name)) - 1 for one in found}
        return [
            f"{one.member} has {len(one.window)} of {wanted[one.member]}"
            for one in found
            if len(one.window) < wanted[one.member]
        ]

    async def so() -> bool:
        nonlocal found
        found = [
            await _selection(cluster, member, connection, streams)
            for member, connection in connections
            if (streams := await _streams(connection, run))
        ]
        return not short()

    what = f"every looking-up member has all secondaries within {WINDOW_MS} ms of the nearest"
    async with AsyncExitStack() as stack:
        connections = [
            (member, await stack.enter_async_context(admin.connected(member.host, deadline=ANSWER_DEADLINE)))
            for member in data_members(cluster)
        ]
        try:
            await admin.until(what, so, deadline=SETTLED_DEADLINE, every=LOOK_EVERY)
        except ClusterError as error:
            raise ClusterError(f"{error}: {', '.join(short())}") from None
    return found


def window(hosts: Iterable[Mapping[str, Any]]) -> list[str]:
    """The addresses in the window, of hosts as `connPoolStats` has them: usable secondaries that are near enough."""
    usable = [one for one in hosts if one["ok"] and one["secondary"]]
    nearest = min((one["pingTimeMillis"] for one in usable), default=0)
    return [one["addr"] for one in usable if one["pingTimeMillis"] <= nearest + WINDOW_MS]


async def _streams(connection: Connection, run: str) -> tuple[str, ...]:
    """The streams of this run that have a cursor on a member."""
    mine = "cursor.originatingCommand.comment"
    pipeline = [
        {"$currentOp": {"allUsers": True, "idleCursors": True}},
        {"$match": {f"{mine}.run": run, f"{mine}.stream": {"$exists": True}, "cursor.tailable": True}},
        {"$group": {"_id": f"${mine}.stream"}},
    ]
    ask = {"aggregate": 1, "pipeline": pipeline, "cursor": {}, "$readPreference": {"mode": "secondaryPreferred"}}
    reply = await connection.command("admin", ask, deadline=ANSWER_DEADLINE)
    return tuple(sorted(one["_id"] for one in reply["cursor"]["firstBatch"]))


async def _selection(cluster: Cluster, member: Member, connection: Connection, streams: Sequence[str]) -> Selection:
    set_name = member.spec.set_name
    reply = await connection.command("admin", {"connPoolStats": 1}, deadline=ANSWER_DEADLINE)
    names = {one.host: one.name for one in of_set(cluster, set_name)}
    near = window(reply.get("replicaSets", {}).get(set_name, {}).get("hosts", ()))
    return Selection(member.name, set_name, tuple(names[host] for host in near if host in names), tuple(streams))
