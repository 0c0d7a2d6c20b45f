"""Undo records that are commands, carried out on real members."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from clusters.guard import (
    FailPointOff,
    FsyncUnlock,
    Ledger,
    Reconfigure,
    RunCommand,
    SignalProcess,
    UndoFailed,
    identify,
    undo_all,
)
from clusters.local import OwnCluster
from clusters.member import LocalMember

pytestmark = pytest.mark.live


async def undo(record: FailPointOff | FsyncUnlock | RunCommand | Reconfigure, deadline: float = 10) -> None:
    await asyncio.to_thread(record.undo, deadline)


async def secondaries(cluster: OwnCluster) -> list[LocalMember]:
    found = []
    for member in cluster.members.values():
        async with member.client() as client:
            if (await client.admin.command("hello"))["secondary"]:
                found.append(member)
    return found


async def fail_pings(member: LocalMember) -> None:
    command = {"configureFailPoint": "failCommand", "mode": "alwaysOn"}
    async with member.client() as client:
        await client.admin.command({**command, "data": {"failCommands": ["ping"], "errorCode": 8}})
        with pytest.raises(OperationFailure):
            await client.admin.command("ping")


async def test_a_fail_point_is_switched_off_and_the_second_time_is_harmless(replica_set: OwnCluster) -> None:
    member = next(iter(replica_set.members.values()))
    await fail_pings(member)
    for _time in range(2):
        await undo(FailPointOff(member.host, "failCommand"))
    async with member.client() as client:
        await client.admin.command("ping")
    with pytest.raises(UndoFailed, match=rf"configureFailPoint on {member.host} failed: \d+ "):
        await undo(FailPointOff(member.host, "noSuchFailPoint"))


async def test_an_fsync_lock_is_let_go_and_the_second_time_is_harmless(replica_set: OwnCluster) -> None:
    member = (await secondaries(replica_set))[0]
    async with member.client() as client:
        await client.admin.command({"fsync": 1, "lock": True})
        for _time in range(2):
            await undo(FsyncUnlock(member.host))
        assert "fsyncLock" not in await client.admin.command("currentOp")


async def test_a_lock_that_is_not_let_go_is_not_called_undone(replica_set: OwnCluster) -> None:
    member = (await secondaries(replica_set))[0]
    async with member.client() as client:
        for _time in range(2):
            await client.admin.command({"fsync": 1, "lock": True})
        await undo(FsyncUnlock(member.host))
        assert (await client.admin.command("currentOp"))["fsyncLock"]
        await undo(FsyncUnlock(member.host))


async def test_a_command_is_run_as_extended_json_says(replica_set: OwnCluster) -> None:
    member = next(iter(replica_set.members.values()))
    name = "cursorTimeoutMillis"
    async with member.client() as client:
        before = (await client.admin.command({"getParameter": 1, name: 1}))[name]
        await undo(RunCommand(member.host, "admin", {"setParameter": 1, name: {"$numberLong": str(before + 1)}}))
        assert (await client.admin.command({"getParameter": 1, name: 1}))[name] == before + 1
        await undo(RunCommand(member.host, "admin", {"setParameter": 1, name: {"$numberLong": str(before)}}))
        assert (await client.admin.command({"getParameter": 1, name: 1}))[name] == before
    with pytest.raises(UndoFailed, match=r"noSuchCommand on .* failed: 59 "):
        await undo(RunCommand(member.host, "admin", {"noSuchCommand": 1}))


async def test_a_configuration_is_put_back_by_whoever_is_primary(replica_set: OwnCluster) -> None:
    members = await secondaries(replica_set)
    hosts = [member.host for member in replica_set.members.values()]
    set_name = replica_set.topology.shards[0].name

    async def config(client: Any) -> dict[str, Any]:
        return dict((await client.admin.command("replSetGetConfig"))["config"])

    async with replica_set.client() as client:
        before = await config(client)
        broken = await config(client)
        broken["version"] += 1
        # The vote of one only: a reconfiguration that changes two is refused.
        changes = [{"votes": 0, "priority": 0}, {"priority": 0, "tags": {"broken": "yes"}}]
        for member, change in zip(members, changes, strict=True):
            (one,) = (one for one in broken["members"] if one["host"] == member.host)
            one.update(change)
        await client.admin.command("replSetReconfig", broken)
        fields = ("votes", "priority", "tags")
        put_back = {
            one["host"]: {field: one[field] for field in fields}
            for one in before["members"]
            if one["host"] in {member.host for member in members}
        }
        for _time in range(2):
            await undo(Reconfigure(hosts, set_name, put_back))
            after = await config(client)
            assert after["members"] == before["members"]
            assert after["version"] == before["version"] + 2
        with pytest.raises(UndoFailed, match=f"other: no primary found: .* belongs to set {set_name}"):
            await undo(Reconfigure(hosts, "other", put_back), 0.5)


async def test_a_member_that_is_stopped_costs_its_share_of_the_time_and_is_healed_once_it_runs(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    (member, *_others) = await secondaries(replica_set)
    await fail_pings(member)
    off = FailPointOff(member.host, "failCommand")
    member.freeze()
    try:
        begin = time.monotonic()
        with pytest.raises(UndoFailed, match=r"configureFailPoint on .*: no answer within 0\.5 s"):
            await undo(off, 0.5)
        assert time.monotonic() - begin < 2
        assert member.process is not None
        ledger = Ledger.create(tmp_path / "one", on=replica_set.ledger)
        ledger.open(SignalProcess(identify(member.process.pid), signal.SIGCONT), "fault")
        ledger.open(off, "fault")
        report = await asyncio.to_thread(undo_all, ledger, 10)
        assert report.failed == []
        assert not member.frozen()
        assert not ledger.directory.exists()
    finally:
        member.thaw()
    async with member.client() as client:
        await client.admin.command("ping")
