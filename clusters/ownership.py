"""The ownership marker: a document in a cluster that says whose it is. Without it a cluster is not broken or written.

Written at bring-up, or by `adopt`; its id is that of the ledger which speaks of the cluster. Until it has been read
nothing is sent but hello and that one find. Works on raw connections: a driver sends more than it is told to.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from clusters.admin import MAJORITY
from clusters.errors import Refused
from clusters.wire import access
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

DATABASE: Final = "mongofault"
"""The harness's own database in a cluster that is its own."""
COLLECTION: Final = "owner"
ONE: Final = "owner"
"""The `_id` of the only document: of two who adopt a cluster at once one fails."""

ANSWER: Final = 10.0
"""Seconds for each answer."""
WRITTEN: Final = 40.0
ELECTED: Final = 15.0
"""Seconds for an election that is under way; by default it begins 10 s after a primary fell silent."""
POLL: Final = 0.3
DUPLICATE_KEY: Final = 11000
BY_HAND: Final = f"db.getSiblingDB('{DATABASE}').{COLLECTION}.deleteOne({{_id: '{ONE}'}})"


@dataclass(frozen=True, slots=True)
class Marker:
    """`id` is the ledger's; `made` says how the cluster came to bear it; `when` in seconds since the epoch."""

    id: str
    cluster: str
    made: Literal["up", "adopt"]
    when: float
    version: str

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.when))
        return f"cluster {self.cluster!r} (mongofault {self.made}, {since}, id {self.id})"


def new(ledger_id: str, cluster: str, made: Literal["up", "adopt"]) -> Marker:
    return Marker(ledger_id, cluster, made, round(time.time(), 3), importlib.metadata.version("mongofault"))


def document(marker: Marker) -> dict[str, Any]:
    """As it lies in the cluster."""
    return {"_id": ONE, **asdict(marker)}


async def read(through: Connection) -> Marker | None:
    """The marker, through a router or the primary of a replica set. Raises Refused where it cannot be read."""
    ask = {"find": COLLECTION, "filter": {"_id": ONE}, "limit": 1, "singleBatch": True}
    try:
        found = (await through.command(DATABASE, ask, deadline=ANSWER))["cursor"]["firstBatch"]
    except CommandFailed as error:
        raise Refused(
            f"whether the cluster at {through.host} is ours cannot be read: {error.code} {error.code_name}"
        ) from None
    if not found:
        return None
    (one,) = found
    made: Literal["up", "adopt"] = "adopt" if one.get("made") == "adopt" else "up"
    return Marker(
        str(one.get("id", "")),
        str(one.get("cluster", "")),
        made,
        float(one.get("when", 0)),
        str(one.get("version", "")),
    )


async def write(through: Connection, marker: Marker) -> None:
    """Raises Refused where there is one already; CommandFailed."""
    command = {"insert": COLLECTION, "documents": [document(marker)], "writeConcern": MAJORITY}
    reply = await through.command(DATABASE, command, deadline=WRITTEN)
    for error in reply.get("writeErrors", ()):
        if error["code"] == DUPLICATE_KEY:
            raise Refused(f"the cluster at {through.host} bears a marker already: {await read(through)}")
        raise CommandFailed(through.host, "insert", error)
    _concern_met(through, "insert", reply)


async def remove(through: Connection, ledger_id: str) -> None:
    """Take the marker of this id away, and the database that was made for it where nothing else is in it."""
    delete = {"delete": COLLECTION, "deletes": [{"q": {"_id": ONE, "id": ledger_id}, "limit": 1}]}
    _concern_met(
        through, "delete", await through.command(DATABASE, {**delete, "writeConcern": MAJORITY}, deadline=WRITTEN)
    )
    listed = await through.command(DATABASE, {"listCollections": 1, "nameOnly": True}, deadline=ANSWER)
    others = {one["name"] for one in listed["cursor"]["firstBatch"]} - {COLLECTION}
    if not others and await read(through) is None:
        await through.command(DATABASE, {"dropDatabase": 1, "writeConcern": MAJORITY}, deadline=WRITTEN)


def _concern_met(through: Connection, command: str, reply: dict[str, Any]) -> None:
    if (error := reply.get("writeConcernError")) is not None:
        raise CommandFailed(through.host, command, error)


@asynccontextmanager
async def asked(hosts: Sequence[str], *, patience: float = ELECTED) -> AsyncIterator[Connection]:
    """A connection through which the marker is read and written: to a router, or to the primary of a replica set.

    `hosts` are tried in their order; an election is waited out for `patience` seconds. It says hello and nothing more.
    Raises Refused.
    """
    end = time.monotonic() + patience
    while (connection := await _writable(hosts)) is None:
        if time.monotonic() > end:
            raise Refused(f"no primary is known at {','.join(hosts)}: what is not whole is not broken")
        await asyncio.sleep(POLL)  # nobody announces the primary to one who does not ask
    try:
        yield connection
    finally:
        connection.close()


async def _writable(hosts: Sequence[str]) -> Connection | None:
    """To a router, or to the primary that the first host to answer knows of; None where there is none."""
    connection = await first_of(hosts)
    if _leads(connection):
        return connection
    connection.close()
    if (primary := connection.hello.get("primary")) is None:
        return None
    access.grant([primary], access.to(connection.host))
    connection = await first_of([primary])
    if _leads(connection):
        return connection
    connection.close()
    return None


def _leads(connection: Connection) -> bool:
    return connection.hello.get("msg") == "isdbgrid" or bool(connection.hello.get("isWritablePrimary"))


async def first_of(hosts: Sequence[str], *, deadline: float = ANSWER) -> Connection:
    """A connection to the first of the hosts that answers. Raises Refused naming why none does."""
    reasons = []
    for host in hosts:
        try:
            return await Connection.open(host, deadline=deadline)
        except (ConnectionLost, DeadlinePassed) as error:
            reasons.append(str(error))
        except CommandFailed as error:
            # The server's words on a login that failed name the user at most.
            reasons.append(f"{host} does not let us in: {error.code} {error.code_name}")
    raise Refused("; ".join(reasons) or "no host to ask")


async def marker_of(hosts: Sequence[str]) -> Marker:
    """The marker of the cluster at `hosts`, having sent hello and one find. Raises Refused where there is none."""
    async with asked(hosts) as through:
        marker = await read(through)
    if marker is None:
        raise Refused(
            f"the cluster at {','.join(hosts)} does not bear the marker of mongofault: it is not ours to break "
            "(mongofault adopt makes a cluster ours)"
        )
    return marker


async def require(hosts: Sequence[str], ledger_id: str, cluster: str) -> None:
    """Raises Refused unless the cluster at `hosts` bears the marker of this ledger; sends hello and one find."""
    marker = await marker_of(hosts)
    if marker.id != ledger_id:
        raise Refused(
            f"the cluster at {','.join(hosts)} does not bear the marker of {cluster!r} but that of {marker}: "
            "it is not ours to break"
        )
