"""Whom a watch asks: each router by itself, each member that can be reached, and a router for those that cannot.

Found out once, at the start: the cluster as `discovery` has it, and the routers that it knows of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from clusters import discovery
from clusters.attached import AttachedCluster
from clusters.errors import Refused
from clusters.uri import Uri, parse
from clusters.wire import access
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from harness.watchers.watched import WatchedMember

Kind = Literal["member", "router"]

DEADLINE: Final = 5.0
LOOKED_AGAIN: Final = 300.0
"""Seconds until it is found out again of whom a cluster consists."""
PINGED: Final = timedelta(minutes=2)
"""Behind the newest of them: a router that has been silent for longer is gone (each pings every 30 s)."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a question is put. Routers are called `router HOST`."""

    name: str
    host: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Seats:
    """`through`: the router that is asked for members which do not let us in; None of a replica set."""

    cluster: AttachedCluster
    members: Sequence[WatchedMember]
    seats: Sequence[Seat]
    through: Seat | None

    @property
    def hosts(self) -> Mapping[str, str]:
        through = [] if self.through is None else [self.through]
        return {one.name: one.host for one in (*through, *self.seats)}


async def find(uri: Uri, credentials: Uri | None = None) -> Seats:
    """`credentials`: who one says one is to the members, where that is not what the URI says. Raises Refused."""
    cluster = await discovery.attach(uri, members_as=credentials)
    members = [WatchedMember.of(one) for one in cluster.members.values()]
    seats = [Seat(one.name, one.host, "member") for one in members if one.holds_data]
    if cluster.router is None:
        return Seats(cluster, members, seats, None)
    through = Seat(f"router {cluster.router}", cluster.router, "router")
    # The stand-in has no cursors of its own: all that it does is seen in the members.
    hosts = [] if cluster.server.router == "stand-in" else await _routers(uri, cluster)
    return Seats(cluster, members, [*(Seat(f"router {one}", one, "router") for one in hosts), *seats], through)


async def found_anew(uri: Uri, credentials: Uri | None, before: Seats) -> Seats:
    """Waits until the cluster is not made of the same members and routers any more."""
    while True:
        await asyncio.sleep(LOOKED_AGAIN)
        with suppress(Refused):
            found = await find(uri, credentials)
            if found.hosts != before.hosts:
                return found


def credentials(file: Path) -> Uri:
    """Of a file that holds a URI: its user, its TLS; where it leads to is of no importance. Raises Refused."""
    try:
        return parse(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--member-credentials {file}: {getattr(error, 'strerror', None) or 'expected text'}") from None
    except Refused as error:
        raise Refused(f"--member-credentials {file}: {error}") from None


async def _routers(uri: Uri, cluster: AttachedCluster) -> list[str]:
    """Those of the URI, and those that are written down in the cluster and alive; each once."""
    assert cluster.router is not None
    own = await asyncio.gather(*map(_own_name, uri.hosts))
    found = list(uri.hosts)
    for one in await _written_down(cluster.router):
        if one not in uri.hosts and one not in own:
            access.grant([one], uri.access)
            found.append(one)
    return found


async def _own_name(host: str) -> str | None:
    """`hostname:port`, as it is written down; None where it does not say."""
    # Of all that is in it only the name is wanted; what can be left out is.
    sections = ("metrics", "wiredTiger", "sharding", "network", "locks", "transactions", "tcmalloc", "repl")
    reply = await _answer(host, "admin", {"serverStatus": 1, **dict.fromkeys(sections, 0)})
    return None if reply is None else str(reply.get("host"))


async def _written_down(router: str) -> list[str]:
    reply = await _answer(router, "config", {"find": "mongos", "singleBatch": True, "batchSize": 1000})
    return [] if reply is None else alive(reply["cursor"]["firstBatch"])


async def _answer(host: str, database: str, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None where there is none, or an error."""
    try:
        connection = await Connection.open(host, deadline=DEADLINE)
        try:
            return await connection.command(database, command, deadline=DEADLINE)
        finally:
            connection.close()
    except (ConnectionLost, DeadlinePassed, CommandFailed):
        return None


def alive(written: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of the routers in config.mongos, those whose last ping is no older than the newest by more than PINGED."""
    pinged = [one for one in written if "ping" in one]
    newest = max((one["ping"] for one in pinged), default=None)
    return sorted(str(one["_id"]) for one in pinged if newest is not None and newest - one["ping"] <= PINGED)
