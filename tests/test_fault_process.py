"""Faults on a member's process: seen by the kernel and by a driver, healed by themselves and from the record alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, CursorNotFound, WriteConcernError, WTimeoutError
from pymongo.write_concern import WriteConcern

from clusters import admin
from clusters.errors import ClusterError
from clusters.guard import Process, identify, state
from clusters.local import OwnCluster
from clusters.member import LocalMember
from fault_parts import a_secondary, fault, slow, struck, the_primary, whole
from faults import Unproven
from faults.process import comes

pytestmark = pytest.mark.live

GONE = ("kill", "terminate")
RESTARTS = ("restart signal=KILL", "restart")


async def answers(member: LocalMember, deadline: float = 0.3) -> bool:
    """Whether it shakes hands by the deadline."""
    try:
        (await admin.connect(member.host, deadline=deadline)).close()
    except ClusterError:
        return False
    return True


async def write(cluster: OwnCluster, members: int, deadline: float) -> None:
    """Acknowledged by so many members. The driver knows the primary alone: pymongo 4.20 leaks the socket of a
    connection to a dead member that is under way when the client is closed."""
    async with (await the_primary(cluster)).client() as client:
        concern = WriteConcern(members, wtimeout=int(deadline * 1000))
        await client.injured.get_collection("things", write_concern=concern).insert_one({})


@pytest.mark.parametrize("form", GONE)
async def test_a_member_that_ended_is_missed_until_it_is_healed(nimble: OwnCluster, form: str, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    before = victim.process
    async with struck(nimble, victim, form, tmp_path) as blow:
        evidence = await blow.injection.inject()
        assert before is not None
        assert state(before) is None
        assert evidence.fields["exit_code"] == (0 if form == "terminate" else -9)
        assert await blow.fault.active()
        assert not await answers(victim)
        await write(nimble, 2, 5)
        with pytest.raises((WriteConcernError, WTimeoutError)):
            await write(nimble, 3, 0.3)
        assert await fault(nimble, victim, form).available() == f"{victim.name} is not running"
    assert victim.process != before
    await write(nimble, 3, 10)


@pytest.mark.slow
async def test_a_primary_that_is_killed_is_followed_by_another_and_a_write_goes_through(
    nimble: OwnCluster, tmp_path: Path
) -> None:
    primary = await the_primary(nimble)
    async with struck(nimble, primary, "kill", tmp_path) as blow:
        await blow.injection.inject()

        async def another() -> bool:
            try:
                return await the_primary(nimble) is not primary
            except ClusterError:
                return False

        await admin.until("another primary", another, deadline=20)
        await write(nimble, 2, 10)
    assert await the_primary(nimble) is primary


@pytest.mark.parametrize("form", ["kill", *slow("terminate", "restart")])
async def test_from_its_record_alone_the_member_runs_again(nimble: OwnCluster, form: str, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    before = victim.process
    async with struck(nimble, victim, form, tmp_path) as blow:
        await blow.injection.inject()
        assert blow.records() == [f"start mongod that bears token {victim.token}"]
        for _time in range(2):
            await blow.undo_from_records_alone()
        assert await answers(victim, 20)
        async with victim.client() as client:
            pid = (await client.admin.command("serverStatus"))["pid"]
        assert identify(pid) != before
        # This process did not start it, and knows it by its token as another one would.
        victim.process, victim._child = identify(pid), None


async def test_a_member_told_to_end_that_has_not_ended_yet_has_done_so_before_it_is_started_again(
    nimble: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(nimble)
    async with victim.client() as client:
        await client.admin.command({"setParameter": 1, "shutdownTimeoutMillisForSignaledShutdown": 15_000})
    before = victim.process
    assert before is not None
    (record,) = fault(nimble, victim, "terminate").undo()
    stopping = asyncio.create_task(victim.stop(deadline=20))
    await asyncio.sleep(0.5)
    assert state(before) is not None
    await asyncio.to_thread(record.undo, 10)
    await stopping
    assert state(before) is None
    assert await answers(victim, 20)
    async with victim.client() as client:
        victim.process, victim._child = identify((await client.admin.command("serverStatus"))["pid"]), None
    await whole(nimble)


async def test_a_member_may_be_lost_for_good(nimble: OwnCluster, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    lost = fault(nimble, victim, "kill restart=no")
    assert lost.undo() == []
    await lost.inject()
    await lost.proof()
    await lost.heal()
    assert not victim.running()
    assert await lost.active()
    await fault(nimble, victim, "kill").heal()
    await whole(nimble)


@pytest.mark.parametrize("form", ["restart signal=KILL", *slow("restart")])
async def test_a_restarted_member_is_another_process_that_knows_nothing_of_the_cursors_it_had(
    nimble: OwnCluster, form: str, tmp_path: Path
) -> None:
    victim = await a_secondary(nimble)
    await write(nimble, 3, 10)
    await write(nimble, 3, 10)
    before = victim.process
    async with struck(nimble, victim, form, tmp_path) as blow, victim.client() as client:
        cursor = client.injured.things.find(batch_size=1)
        await cursor.next()
        evidence = await blow.injection.inject()
        assert before is not None
        assert state(before) is None
        assert evidence.fields["pid"] != before.pid
        assert await blow.fault.active()
        with pytest.raises((CursorNotFound, AutoReconnect)):
            await cursor.next()
        assert await answers(victim)
        await blow.injection.heal()
        assert await blow.fault.active(), "its new life goes on"
        process, victim.process = victim.process, Process(1, 1, "")
        assert not await blow.fault.active()
        victim.process = process


async def test_a_stuttering_member_answers_some_at_once_and_others_when_it_goes_on(
    nimble: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(nimble)
    async with struck(nimble, victim, "stutter share=0.6 period=0.4", tmp_path) as blow, victim.client() as client:
        await client.admin.command("ping")
        evidence = await blow.injection.inject()
        assert 0.4 < evidence.fields["share"] < 0.8
        assert await blow.fault.active()
        times = []
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            begin = time.monotonic()
            await client.admin.command("ping")
            times.append(time.monotonic() - begin)
        assert sum(one > 0.15 for one in times) >= 2
        assert sum(one < 0.05 for one in times) > 10
        # As a harness does that is killed: nobody stops it any more, but it may be stopped this moment.
        blow.fault._task.cancel()  # type: ignore[attr-defined]
        victim.freeze()
        assert blow.records() == [f"SIGCONT to {victim.process}"]
        await blow.undo_from_records_alone()
        assert await answers(victim)
        assert not await blow.fault.active()


@pytest.mark.parametrize("form", [*GONE, *RESTARTS, "stutter period=0.1"])
async def test_what_did_not_happen_to_the_process_is_not_proven(
    nimble: OwnCluster, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_any: Any, **_more: Any) -> None:
        return

    for name in ("kill", "stop", "start"):
        monkeypatch.setattr(LocalMember, name, nothing)
    monkeypatch.setattr(LocalMember, "freeze", lambda _self: None)
    monkeypatch.setattr("faults.stutter.SLACK", 0.1)
    victim = await a_secondary(nimble)
    async with struck(nimble, victim, form, tmp_path) as blow:
        with pytest.raises(Unproven, match=r"has not ended|is the process it was|is not stopped and let go"):
            await blow.injection.inject()


async def test_a_member_that_takes_too_long_to_end_is_not_proven_gone_and_does_not_end_after_the_heal(
    nimble: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.terminate.SHUTDOWN_DEADLINE", 0.02)
    victim = await a_secondary(nimble)
    before = victim.process
    async with struck(nimble, victim, "terminate", tmp_path) as blow:
        with pytest.raises(Unproven, match=f"terminate {victim.name}: {victim.name} did not end within 0.02 s"):
            await blow.injection.inject()
    assert before is not None
    assert state(before) is None
    assert await answers(victim)


async def test_an_end_that_was_not_in_order_is_no_proof_of_a_termination(
    nimble: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(self: LocalMember, **_more: Any) -> None:
        await self.kill()

    monkeypatch.setattr(LocalMember, "stop", killed)
    victim = await a_secondary(nimble)
    async with struck(nimble, victim, "terminate", tmp_path) as blow:
        with pytest.raises(Unproven, match="its log does not say that it shut down"):
            await blow.injection.inject()


async def test_a_member_that_cannot_be_started_again_is_not_called_healed(nimble: OwnCluster, tmp_path: Path) -> None:
    victim = await a_secondary(nimble)
    command = victim.command
    async with struck(nimble, victim, "kill", tmp_path) as blow:
        await blow.injection.inject()
        victim.command = [*command, "--setParameter", "noSuchParameter=1"]
        try:
            with pytest.raises(ClusterError, match=f"{victim.name} cannot be started again: .*noSuchParameter"):
                await blow.injection.heal()
        finally:
            victim.command = command
        assert len(blow.records()) == 1


@pytest.mark.parametrize("form", [*GONE, *RESTARTS, "stutter"])
async def test_a_member_frozen_by_somebody_else_is_no_target(nimble: OwnCluster, form: str) -> None:
    victim = await a_secondary(nimble)
    victim.freeze()
    assert await comes(victim.frozen, 2)
    try:
        assert await fault(nimble, victim, form).available() == f"{victim.name} is frozen already, and not by this run"
    finally:
        victim.thaw()
