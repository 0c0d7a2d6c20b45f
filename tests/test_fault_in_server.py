"""Faults inside a server, each form: proven by its effect, refused where it cannot be, gone by its undo record."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import ExecutionTimeout
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import SecondaryPreferred
from pymongo.write_concern import WriteConcern

import faults
from clusters import admin, binaries, commandline, ports
from clusters.cluster import of_set, primary_of
from clusters.errors import Refused
from clusters.guard import Ledger, new_token
from clusters.local import OwnCluster
from clusters.member import LocalMember
from clusters.topology import MemberSpec, Role, Settings
from clusters.wire.connection import Connection
from faults import HangAfterCommand, PauseReplication, Site, Unproven
from faults.base import Injection
from faults.failpoint import FailPoint
from faults.options import parse
from faults.pause_replication import PauseOptions

pytestmark = pytest.mark.live

NAMESPACE = "injured.things"
PAUSES = ("rsSyncApplyStop", "stopReplProducer", "fsyncLock")
FORMS = (*(f"pause-replication how={how}" for how in PAUSES), "hang-after-command")


@dataclass
class Ground:
    """A secondary, and what is known of it independently of any fault."""

    cluster: OwnCluster
    victim: LocalMember

    def fault(self, form: str) -> faults.Fault:
        name, *options = form.split()
        kind = faults.by_name(name)
        return kind(Site(self.cluster, self.victim, NAMESPACE), parse(name, kind.options, options))

    async def injured(self) -> list[str]:
        """What is on in the victim, found with pymongo alone."""
        async with self.victim.client() as client:
            found = ["fsyncLock"] if (await client.admin.command("currentOp")).get("fsyncLock") else []
            for name in (*PAUSES[:2], "waitAfterCommandFinishesExecution"):
                state = (await client.admin.command({"getParameter": 1, f"failpoint.{name}": 1}))[f"failpoint.{name}"]
                found += [name] if state["mode"] else []
        return found


@pytest.fixture
async def ground(replica_set: OwnCluster) -> AsyncIterator[Ground]:
    primary = await primary_of(replica_set, "rs0")
    ground = Ground(replica_set, next(one for one in of_set(replica_set, "rs0") if one is not primary))  # type: ignore[arg-type]
    async with replica_set.client() as client:
        things = client.injured.get_collection("things", write_concern=WriteConcern(3))
        await things.replace_one({"_id": 1}, {"_id": 1}, upsert=True)
    try:
        yield ground
    finally:
        for form in FORMS:
            ground.fault(form).undo()[0].undo(10)


@pytest.mark.parametrize("form", FORMS)
async def test_it_is_proven_and_its_undo_record_alone_heals_it(ground: Ground, form: str, tmp_path: Path) -> None:
    fault = ground.fault(form)
    assert await fault.available() is None
    injection = Injection(fault, Ledger.create(tmp_path / "ledger"), guarded=lambda: True)
    evidence = await injection.inject()
    assert ground.victim.name in evidence.statement
    assert await ground.injured() == [form.partition("how=")[2] or "waitAfterCommandFinishesExecution"]
    assert await fault.active()
    obstacle = await ground.fault(form).available()
    assert obstacle is not None
    assert "already, and not by this run" in obstacle
    (record,) = Ledger.load(tmp_path / "ledger").open_records()
    await asyncio.to_thread(record.undo.undo, 10)
    assert await ground.injured() == []
    assert not await fault.active()
    await injection.heal()
    assert Ledger.load(tmp_path / "ledger").open_records() == []


@pytest.mark.parametrize("form", [pytest.param(FORMS[1], marks=pytest.mark.slow), FORMS[0], FORMS[2], FORMS[3]])
async def test_an_injection_that_does_nothing_is_not_proven(
    ground: Ground, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_self: Any) -> None:
        return

    for kind in (PauseReplication, HangAfterCommand):
        monkeypatch.setattr(kind, "inject", nothing)
    monkeypatch.setattr("faults.pause_replication.PROOF_DEADLINE", 2.5)
    injection = Injection(ground.fault(form), Ledger.create(tmp_path / "ledger"), guarded=lambda: True)
    with pytest.raises(Unproven, match=r"does not (fall behind|hold)"):
        await injection.inject()
    await injection.heal()


async def test_a_fail_point_that_is_on_without_effect_is_not_proven(ground: Ground, tmp_path: Path) -> None:
    fault = HangAfterCommand(Site(ground.cluster, ground.victim, "injured.others"))
    fault._namespace = NAMESPACE
    injection = Injection(fault, Ledger.create(tmp_path / "ledger"), guarded=lambda: True)
    with pytest.raises(Unproven, match="does not hold an aggregate"):
        await injection.inject()
    await injection.heal()
    assert await ground.injured() == []


async def test_a_paused_secondary_serves_what_it_has_and_waits_only_for_what_is_newer(ground: Ground) -> None:
    fault = PauseReplication(Site(ground.cluster, ground.victim))
    await fault.inject()
    async with ground.cluster.client() as writing, ground.victim.client() as reading:
        reply = await writing.injured.command("insert", "things", documents=[{}], writeConcern={"w": "majority"})
        things = reading.injured.get_collection("things", read_preference=SecondaryPreferred())
        await things.find_one(max_time_ms=1000)
        newer = {"level": "majority", "afterClusterTime": reply["operationTime"]}
        with pytest.raises(ExecutionTimeout):
            await reading.injured.command(
                "find",
                "things",
                maxTimeMS=300,
                readConcern=newer,
                **{"$clusterTime": reply["$clusterTime"]},
                read_preference=SecondaryPreferred(),
            )
        await fault.heal()
        await things.with_options(read_concern=ReadConcern("majority")).find_one(max_time_ms=5000)


async def test_a_held_aggregate_ignores_its_time_limit_and_everything_else_is_answered(ground: Ground) -> None:
    fault = HangAfterCommand(Site(ground.cluster, ground.victim, NAMESPACE))
    await fault.inject()
    async with ground.victim.client() as client:
        for namespace in ("things", "others"):
            await client.injured[namespace].with_options(read_preference=SecondaryPreferred()).find_one()
        connection = await Connection.open(ground.victim.host, deadline=5)
        ask = {"aggregate": "things", "pipeline": [], "cursor": {}, "maxTimeMS": 100}
        preference = {"$readPreference": {"mode": "secondaryPreferred"}}
        held = asyncio.create_task(connection.command("injured", {**ask, **preference}, deadline=20))
        assert (await asyncio.wait([held], timeout=1.0))[1] == {held}
        await fault.heal()
        assert (await held)["ok"] == 1
        connection.close()


@pytest.mark.parametrize("how", PAUSES)
async def test_a_primary_is_no_target_for_a_pause_of_replication(replica_set: OwnCluster, how: str) -> None:
    primary = await primary_of(replica_set, "rs0")
    fault = PauseReplication(Site(replica_set, primary), PauseOptions.model_validate({"how": how}))
    assert await fault.available() == f"{primary.name} is no secondary: nothing is replicated to it"


async def test_to_hold_aggregates_a_namespace_must_be_given(ground: Ground) -> None:
    reason = await HangAfterCommand(Site(ground.cluster, ground.victim)).available()
    assert reason == "it holds the aggregates on one namespace, and none was given"


async def test_a_member_that_does_not_answer_is_no_target(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.direct.ANSWER", 0.5)
    ground.victim.freeze()
    try:
        for form in FORMS:
            assert "cannot be asked" in str(await ground.fault(form).available())
    finally:
        ground.victim.thaw()


async def test_a_fail_point_that_the_server_does_not_know_is_an_obstacle(ground: Ground) -> None:
    fail_point = FailPoint(ground.victim.host, "noSuchFailPoint")
    assert await fail_point.obstacle() == "has no fail point noSuchFailPoint: this server version does not know it"
    fail_point.close()


@pytest.fixture
def without_test_commands() -> Iterator[LocalMember]:
    """A mongod as users have them."""
    spec = MemberSpec("plain-0", "plain", Role.REPLICA_SET, parameters={"enableTestCommands": "0"})
    (port,) = ports.choose(1)
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        binary = binaries.find_mongod().path
        command = commandline.mongod(binary, spec, Settings(), port=port, data=data, log=commandline.log_path(data))
        member = LocalMember(spec, f"127.0.0.1:{port}", command, commandline.log_path(data), new_token())
        member.spawn()
        try:
            yield member
        finally:
            asyncio.run(member.kill())


async def test_a_server_without_test_commands_has_no_fail_points(without_test_commands: LocalMember) -> None:
    (await admin.connect(without_test_commands.host, deadline=30)).close()
    fail_point = FailPoint(without_test_commands.host, "rsSyncApplyStop")
    assert "runs without enableTestCommands=1" in str(await fail_point.obstacle())
    fail_point.close()


@pytest.mark.parametrize("given", ["how=slowly", "when=now", "how"])
def test_an_option_that_is_none_is_refused_with_those_there_are(given: str) -> None:
    with pytest.raises(Refused) as refused:
        parse("pause-replication", PauseOptions, [given])
    assert given.partition("=")[0] in str(refused.value)
    assert "pause-replication takes how=rsSyncApplyStop|stopReplProducer|fsyncLock" in str(refused.value)
