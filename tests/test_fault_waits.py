"""Faults under which writes wait, for a lock, a ticket, a conflict, or midway: what ends the wait, what undoes them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.errors import ExecutionTimeout, NetworkTimeout

import faults
from clusters import admin
from clusters.errors import Refused
from clusters.local import OwnCluster
from clusters.member import LocalMember
from fault_parts import a_secondary, fault, slow, struck, the_primary
from faults import Unproven
from faults.options import parse

pytestmark = pytest.mark.live

WAITS = ("lock-wait", "no-tickets", "write-conflict")
MIDWAY = "hang-in-yield proof=on"
DOCUMENTS = 20
LIMIT = 3
"""Seconds of maxTimeMS for a write that is to get into the engine whatever the machine does beside it."""


@pytest.fixture(autouse=True)
async def things(replica_set: OwnCluster) -> AsyncIterator[None]:
    async with replica_set.client() as client:
        await client.drop_database("injured")
        things = client.injured.get_collection("things", write_concern=WriteConcern(3))
        await things.insert_many([{"_id": number, "n": 0} for number in range(DOCUMENTS)])
        yield
        await client.drop_database("injured")


async def modify(member: LocalMember, identity: Any = 1, **options: Any) -> float:
    """Seconds that it took one document to be changed by a driver that does not resend."""
    begin = time.monotonic()
    async with member.client(retryWrites=False, socketTimeoutMS=2500) as client:
        await client.injured.things.find_one_and_update({"_id": identity}, {"$inc": {"n": 1}}, upsert=True, **options)
    return time.monotonic() - begin


async def at(client: AsyncMongoClient[dict[str, Any]], wanted: Mapping[str, Any], *, everything: bool = False) -> None:
    """Until there is such an operation (currentOp's own filter)."""

    async def there() -> bool:
        return bool((await client.admin.command({"currentOp": 1, "$all": everything, **wanted}))["inprog"])

    await admin.until(f"there is an operation {wanted}", there, deadline=20)


async def until_on(one: faults.Fault) -> None:
    await admin.until(f"{one.name} is on", one.active, deadline=20)


async def changed(member: LocalMember) -> int:
    """Of the documents, one after the other: what goes over many of them may be held."""
    async with member.client() as client:
        found = [await client.injured.things.find_one({"_id": number}) for number in range(DOCUMENTS)]
    return sum(one["n"] > 0 for one in found if one is not None)


@pytest.mark.parametrize("form", WAITS)
async def test_a_write_waits_until_its_max_time_and_writes_nothing_and_the_undo_records_alone_end_that(
    replica_set: OwnCluster, form: str, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, form, tmp_path) as blow:
        evidence = await blow.injection.inject()
        assert primary.name in evidence.statement
        assert await blow.fault.active()
        with pytest.raises(ExecutionTimeout):
            await modify(primary, maxTimeMS=300)
        async with primary.client() as client:
            assert (await client.admin.command("hello"))["isWritablePrimary"]
        await blow.undo_from_records_alone()
        assert not await blow.fault.active()
        assert await modify(primary) < 2
        assert await changed(primary) == 1


@pytest.mark.slow
async def test_the_fault_is_not_on_before_its_lock_is_held_and_what_was_written_till_then_outlives_its_max_time(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with contextlib.AsyncExitStack() as blows, primary.client() as client:
        form = "fail-point point=hangWithLockDuringBatchInsert"
        holding = await blows.enter_async_context(struck(replica_set, primary, form, tmp_path / "holding"))
        injecting = asyncio.create_task(holding.injection.inject())
        await until_on(holding.fault)
        command = {"insert": "things", "documents": [{"_id": "before"}], "writeConcern": {"w": "majority"}}
        writing = asyncio.create_task(client.injured.command(command, maxTimeMS=LIMIT * 1000))
        await injecting
        lock = await blows.enter_async_context(struck(replica_set, primary, "lock-wait", tmp_path / "lock"))
        locking = asyncio.create_task(lock.injection.inject())
        await at(client, {"desc": "fsyncLockWorker", "waitingForLock": True}, everything=True)
        assert (await client.admin.command("currentOp"))["fsyncLock"]
        assert not await lock.fault.active()
        await holding.undo_from_records_alone()
        await locking
        assert await lock.fault.active()
        assert not (await asyncio.wait([writing], timeout=2 * LIMIT))[0]
        await lock.undo_from_records_alone()
        assert (await asyncio.wait_for(writing, 20))["n"] == 1


@pytest.mark.slow
async def test_what_waits_without_a_max_time_is_written_after_the_driver_has_given_up(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, "lock-wait", tmp_path) as blow:
        await blow.injection.inject()
        with pytest.raises(NetworkTimeout):
            await modify(primary)
        assert await changed(primary) == 0
    assert await changed(primary) == 1


@pytest.mark.slow
async def test_no_max_time_ends_an_upsert_of_a_document_that_the_transaction_is_about_to_make(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, "write-conflict ids=made", tmp_path) as blow:
        await blow.injection.inject()
        # Whether it is written at the heal, long after its time, is chance (6.0.5).
        assert await modify(primary, maxTimeMS=500) < 2
        with pytest.raises(NetworkTimeout):
            await modify(primary, "made", maxTimeMS=500)


async def test_only_the_documents_of_the_filter_conflict(replica_set: OwnCluster, tmp_path: Path) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, 'write-conflict filter={"_id":1}', tmp_path) as blow:
        await blow.injection.inject()
        with pytest.raises(ExecutionTimeout):
            await modify(primary, 1, maxTimeMS=300)
        assert await modify(primary, 2, maxTimeMS=300) < 2


async def test_what_hangs_midway_has_done_a_part_and_what_is_killed_there_leaves_the_rest_undone(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, MIDWAY, tmp_path) as blow:
        await blow.injection.inject()
        async with primary.client(socketTimeoutMS=1000) as client:
            with pytest.raises(NetworkTimeout):
                await client.injured.things.update_many({}, {"$inc": {"n": 1}}, comment="midway")
            part = await changed(primary)
            assert 0 < part < DOCUMENTS
            (hanging,) = [
                one
                for one in (await client.admin.command({"currentOp": 1, "command.comment": "midway"}))["inprog"]
                if one["op"] == "update"
            ]
            await client.admin.command({"killOp": 1, "op": hanging["opid"]})
        await blow.undo_from_records_alone()
        assert await changed(primary) == part


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("lock-wait", "is fsyncLocked already"),
        ("no-tickets", "has only 5 tickets already"),
        (MIDWAY, "has fail point setYieldAllLocksHang on already"),
        *((one.values[0], "already, and not by this run") for one in slow("write-conflict")),
    ],
)
async def test_what_acts_already_is_not_injected_again(
    replica_set: OwnCluster, form: str, reason: str, tmp_path: Path
) -> None:
    primary = await the_primary(replica_set)
    async with struck(replica_set, primary, form, tmp_path) as blow:
        await blow.injection.inject()
        obstacle = await fault(replica_set, primary, form).available()
        assert obstacle is not None
        assert reason in obstacle


@pytest.mark.parametrize("form", WAITS)
async def test_a_secondary_is_no_target_for_it_is_not_written_to(replica_set: OwnCluster, form: str) -> None:
    secondary = await a_secondary(replica_set)
    reason = await fault(replica_set, secondary, form).available()
    assert reason == f"{secondary.name} is no primary: nothing is written to it"


@pytest.mark.parametrize("form", ["write-conflict", MIDWAY])
async def test_without_a_namespace_it_is_not_to_be_had(replica_set: OwnCluster, form: str) -> None:
    reason = await fault(replica_set, await the_primary(replica_set), form, namespace=None).available()
    assert reason is not None
    assert reason.endswith("of one namespace, and none was given")


@pytest.mark.parametrize("form", WAITS)
async def test_an_injection_that_does_nothing_is_not_proven(
    replica_set: OwnCluster, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_self: Any) -> None:
        return

    monkeypatch.setattr(faults.by_name(form), "inject", nothing)
    async with struck(replica_set, await the_primary(replica_set), form, tmp_path) as blow:
        with pytest.raises(Unproven):
            await blow.injection.inject()


async def test_documents_that_there_are_none_of_cannot_be_held(replica_set: OwnCluster, tmp_path: Path) -> None:
    form = 'write-conflict filter={"_id":"nobody"}'
    async with struck(replica_set, await the_primary(replica_set), form, tmp_path) as blow:
        with pytest.raises(Unproven, match="no documents that could be held"):
            await blow.injection.inject()


def test_ids_and_a_filter_together_are_refused() -> None:
    with pytest.raises(Refused, match="expected one of them"):
        parse("write-conflict", faults.WriteConflict.options, ["ids=1", 'filter={"x":1}'])
