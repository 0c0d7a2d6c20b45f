"""How streams that wait behind a fault are freed before it is healed: the member killed, or the hung operations.

Each takes the tag back first, so that the lookups to come do not hang again, and waits until the streams move: then it
was the release that freed them, not the healing. It heals nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters import admin
from clusters.cluster import Cluster, of_set, primary_of
from clusters.errors import ClusterError
from clusters.guard import Ledger, Reconfigure
from clusters.member import Member
from clusters.wire.connection import CommandFailed, Connection
from faults import process
from harness import stage
from harness.drivers.streams import Streams
from harness.history import Recorder
from harness.measures import OVERDUE
from harness.traffic import delivered, delivering
from harness.watchers.currentop import COMMAND_NOT_FOUND, GetMore, current_op, read_ops

SOURCE: Final = "release"
ANSWER = 10.0
UNSEEN_DEADLINE = 30.0


@dataclass(frozen=True, slots=True)
class Hold:
    """What is held, and by which of RELEASES it ends. `back`: tags to be put back, empty where none were moved."""

    release: str
    cluster: Cluster
    ledger: Ledger
    target: Member
    streams: Streams
    recorder: Recorder
    run: str
    back: stage.Tags
    traffic: bool


async def kill_member(hold: Hold) -> None:
    """SIGKILL the member waited for: its connections break, and the driver's resumable error does the rest.

    Nobody looks up at a member that is gone, so that without tags there is nothing to be moved.
    """
    await _tag_back(hold)
    before = delivered(hold.streams)
    target = hold.target
    if hold.ledger.on is not None:
        # A kept cluster is to have its member back also if this process does not live to start it.
        hold.ledger.open(process.start_again(target), "fault", f"{target.name} killed")
    await target.kill()
    hold.recorder.record("release", SOURCE, what="member killed", member=hold.target.name)
    await _moving(hold, before)


async def kill_op(hold: Hold) -> None:
    """killOp every getMore that hangs on the other members of the set; the lookups themselves cannot be killed.

    The member waited for is hidden as well: frozen or fsyncLocked it does not install the configuration that takes its
    tag away, and whoever asks it hears of the tag for as long as it is a member to be asked.
    """
    set_name = hold.target.spec.set_name
    hosts = [member.host for member in of_set(hold.cluster, set_name)]
    undo = Reconfigure(hosts, set_name, {hold.target.host: _visible(hold)})
    hold.ledger.open(undo, "fault", f"{hold.target.name} hidden")
    await _tag_back(hold, hide=True)
    await _unseen(hold, {one.member for one in await _hanging(hold)})
    before = delivered(hold.streams)
    for getmore in await _hanging(hold):
        async with admin.connected(hold.cluster.members[getmore.member].host) as connection:
            await connection.command("admin", {"killOp": 1, "op": getmore.opid}, deadline=ANSWER)
        hold.recorder.record(
            "release", SOURCE, what="op killed", member=getmore.member, opid=getmore.opid, stream=getmore.stream
        )
    await _moving(hold, before)


RELEASES: Final[Mapping[str, Callable[[Hold], Awaitable[None]]]] = {"kill-member": kill_member, "kill-op": kill_op}


async def freed(hold: Hold) -> None:
    """Carry the release out; the fault is still there afterwards."""
    await RELEASES[hold.release](hold)


async def restored(hold: Hold) -> None:
    """After the heal: the member that was killed is started again, the one that was hidden is seen again."""
    if not hold.target.running():
        await hold.target.start()
        hold.recorder.record("release", SOURCE, what="member started", member=hold.target.name)
    if hold.release == "kill-op":
        await _reconfigured(hold, {hold.target.host: _visible(hold)})


async def _tag_back(hold: Hold, *, hide: bool = False) -> None:
    fields: dict[str, dict[str, Any]] = {
        hold.cluster.members[name].host: {"tags": dict(tags)} for name, tags in hold.back.items()
    }
    if hide:
        fields.setdefault(hold.target.host, {}).update(hidden=True, priority=0)
    if not fields:
        return
    await _reconfigured(hold, fields)
    hold.recorder.record("release", SOURCE, what="tags moved back", members=sorted(hold.back), hidden=hide)


def _visible(hold: Hold) -> dict[str, Any]:
    return {"hidden": False, "priority": hold.target.spec.priority}


async def _reconfigured(hold: Hold, fields: Mapping[str, Mapping[str, Any]]) -> None:
    primary = await primary_of(hold.cluster, hold.target.spec.set_name)
    async with admin.connected(primary.host) as connection:
        await admin.set_fields(connection, fields, force=True)


async def _unseen(hold: Hold, by: set[str]) -> None:
    """Wait until these members, and the router, know the hidden one no more: nobody reads from it then."""
    askers = {name: hold.cluster.members[name].host for name in sorted(by)}
    if hold.cluster.router is not None:
        askers["the router"] = hold.cluster.router
    for name, host in askers.items():
        async with admin.connected(host) as connection:

            async def unseen(connection: Connection = connection) -> bool:
                return hold.target.host not in await _known(connection, hold.target.spec.set_name)

            await admin.until(f"{name} sees {hold.target.name} no more", unseen, deadline=UNSEEN_DEADLINE)


async def _known(connection: Connection, set_name: str) -> set[str]:
    """The hosts that a server's replica set monitor knows of a set; the stand-in tells its own, see its status."""
    try:
        status = await connection.command("admin", {"mongofaultRouterStatus": 1}, deadline=ANSWER)
        return set(status["sets"].get(set_name, ()))
    except CommandFailed as error:
        if error.code != COMMAND_NOT_FOUND:
            raise
    reply = await connection.command("admin", {"connPoolStats": 1}, deadline=ANSWER)
    return {one["addr"] for one in reply["replicaSets"].get(set_name, {}).get("hosts", [])}


async def _hanging(hold: Hold) -> list[GetMore]:
    """This run's getMores that are past their maxTimeMS on the members of the set that can be asked."""
    found: list[GetMore] = []
    for member in of_set(hold.cluster, hold.target.spec.set_name):
        if member is not hold.target:
            async with admin.connected(member.host) as connection:
                reply = await connection.command("admin", current_op(hold.run), deadline=ANSWER)
            getmores, _lookups = read_ops(member.name, reply["cursor"]["firstBatch"], hold.run, hold.recorder.now())
            found += [one for one in getmores if one.stream is not None and one.overdue > OVERDUE]
    return found


async def _moving(hold: Hold, before: Mapping[str, int]) -> None:
    """Until every stream has delivered since; a release that frees no stream is a result too, and judged elsewhere."""
    if not hold.traffic:
        return

    try:
        await delivering(hold.streams, 1, since=before)
    except ClusterError as error:
        hold.recorder.record("release", SOURCE, what="streams still silent", detail=str(error))
    else:
        hold.recorder.record("release", SOURCE, what="streams move")
