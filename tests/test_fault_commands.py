"""`fail-command` and `fail-point`: what a driver sees of them, what they leave alone, and how they are gone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.read_preferences import SecondaryPreferred

import faults
from clusters.errors import Refused
from clusters.local import OwnCluster
from clusters.member import LocalMember
from fault_parts import a_secondary, fault, struck
from faults import Unproven
from faults.options import parse

pytestmark = pytest.mark.live

FORMS = (
    "fail-command commands=find errorCode=8",
    "fail-command commands=find,count closeConnection=yes",
    "fail-command commands=find blockTimeMS=400",
    'fail-point point=failCommand data={"failCommands":["find"],"errorCode":{"$numberInt":"8"}} proof=on',
)


async def find(client: AsyncMongoClient[dict[str, Any]], collection: str = "things") -> float:
    """How many seconds a find takes, on the member alone and with no retry."""
    begin = time.monotonic()
    things = client.injured.get_collection(collection, read_preference=SecondaryPreferred())
    await things.find_one()
    return time.monotonic() - begin


def driver(member: LocalMember, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
    return member.client(retryReads=False, **options)


async def on(member: LocalMember, name: str = "failCommand") -> bool:
    async with member.client() as client:
        state = await client.admin.command({"getParameter": 1, f"failpoint.{name}": 1})
        return bool(state[f"failpoint.{name}"]["mode"])


@pytest.mark.parametrize("form", FORMS)
async def test_a_driver_meets_the_fault_until_its_undo_record_alone_has_healed_it(
    replica_set: OwnCluster, form: str, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, form, tmp_path) as blow, driver(victim) as client:
        evidence = await blow.injection.inject()
        assert victim.name in evidence.statement
        assert await blow.fault.active()
        if "blockTimeMS" in form:
            assert await find(client) > 0.39
        else:
            with pytest.raises(AutoReconnect if "closeConnection" in form else OperationFailure):
                await find(client)
        await client.admin.command("ping")
        assert "already, and not by this run" in str(await fault(replica_set, victim, form).available())
        assert blow.records() == [f"fail point failCommand off on {victim.host}"]
        await blow.undo_from_records_alone()
        assert not await on(victim)
        assert not await blow.fault.active()
        # On a busy machine one may take longer.
        assert min([await find(client) for _time in range(3)]) < 0.3


async def test_only_the_commands_on_the_namespace_and_of_the_application_fail_and_with_the_labels_given(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    form = "fail-command commands=find errorCode=6 errorLabels=One,Two namespace=injured.things appName=unlucky"
    async with struck(replica_set, victim, form, tmp_path) as blow:
        await blow.injection.inject()
        async with driver(victim, appname="unlucky") as client:
            with pytest.raises(OperationFailure) as failed:
                await find(client)
            assert failed.value.code == 6
            assert failed.value.has_error_label("One")
            assert failed.value.has_error_label("Two")
            await find(client, "others")
        async with driver(victim, appname="lucky") as client:
            await find(client)


async def test_the_namespace_may_be_the_one_that_is_watched(replica_set: OwnCluster, tmp_path: Path) -> None:
    victim = await a_secondary(replica_set)
    form = "fail-command commands=find errorCode=8 namespace=watched"
    assert await fault(replica_set, victim, form, None).available() == (
        "it is to strike commands on the watched namespace, and none was given"
    )
    async with struck(replica_set, victim, form, tmp_path) as blow, driver(victim) as client:
        await blow.injection.inject()
        with pytest.raises(OperationFailure):
            await find(client)
        await find(client, "others")


async def test_so_many_commands_fail_as_were_asked_for_the_one_that_proves_it_not_counted(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, "fail-command commands=find errorCode=8 times=2", tmp_path) as blow:
        await blow.injection.inject()
        async with driver(victim) as client:
            for _time in range(2):
                with pytest.raises(OperationFailure):
                    await find(client)
            await find(client)
        assert await blow.fault.active()


async def test_a_heal_waits_for_what_is_blocked_while_new_commands_go_through(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, "fail-command commands=find blockTimeMS=1500", tmp_path) as blow:
        await blow.injection.inject()
        async with driver(victim) as client, driver(victim) as another:
            held = asyncio.create_task(find(client))
            await asyncio.sleep(0.3)
            healing = asyncio.create_task(blow.injection.heal())
            await asyncio.sleep(0.2)
            await find(another)
            assert not healing.done()
            await healing
            assert await held > 1.4


@pytest.mark.parametrize("form", [FORMS[0], FORMS[2], FORMS[3]])
async def test_what_was_not_switched_on_is_not_proven(
    replica_set: OwnCluster, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_self: Any) -> None:
        return

    monkeypatch.setattr("faults.failpoint.FailPoint.on", nothing)
    monkeypatch.setattr("faults.fail_command.PROOF_DEADLINE", 0.5)
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, form, tmp_path) as blow:
        with pytest.raises(Unproven, match=r"did not run into failCommand: ours was answered|nothing ran into"):
            await blow.injection.inject()


@pytest.mark.parametrize("form", ["fail-command commands=insert errorCode=8", "fail-point point=hangDuringBatchInsert"])
async def test_what_nobody_runs_into_is_not_proven(
    replica_set: OwnCluster, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("fail_command", "fail_point"):
        monkeypatch.setattr(f"faults.{module}.PROOF_DEADLINE", 0.5)
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, form, tmp_path) as blow:
        with pytest.raises(Unproven):
            await blow.injection.inject()
        assert await blow.fault.active()


async def test_a_fail_point_may_be_entered_with_a_probability_or_some_times(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    form = (
        'fail-point point=failCommand mode={"activationProbability":0.5} data={"failCommands":["find"],"errorCode":8}'
    )
    async with struck(replica_set, victim, form, tmp_path) as blow, driver(victim) as client:
        injecting = asyncio.create_task(blow.injection.inject())
        fared: list[str] = []
        while not injecting.done() or len(fared) < 40:
            try:
                await find(client)
                fared.append("answered")
            except OperationFailure:
                fared.append("failed")
        assert (await injecting).fields["entered"] > 0
        assert {*fared} == {"answered", "failed"}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("fail-command", [], "fail-command needs it; it takes commands=A,B,.., errorCode=INT"),
        ("fail-command", ["commands=find"], "expected errorCode, closeConnection or blockTimeMS"),
        ("fail-command", ["commands=find", "blockTimeMS=20001"], "less than or equal to 20000"),
        ("fail-command", ["commands=find", "closeConnection=yes", "errorLabels=A"], "give an errorCode as well"),
        ("fail-command", ["commands=ping,hello", "errorCode=8"], "give an appName"),
        ("fail-point", ["point=failCommand", "data=find"], "fail-point takes point=STR, data=JSON, mode=alwaysOn|JSON"),
        ("fail-point", ["point=failCommand", "data=[1]"], "expected a document in extended JSON"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(name: str, given: list[str], said: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(name, faults.by_name(name).options, given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_fail_point_of_another_release_is_refused(replica_set: OwnCluster) -> None:
    victim = await a_secondary(replica_set)
    assert await fault(replica_set, victim, "fail-point point=noSuchFailPoint").available() == (
        f"{victim.name} has no fail point noSuchFailPoint: this server version does not know it"
    )
