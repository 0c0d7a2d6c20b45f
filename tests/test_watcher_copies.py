"""The live sampler of copies on real servers: who is inside the engine, what it waits for, and the alarm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusters import admin
from clusters.cluster import data_members, primary_of
from clusters.local import LocalCluster
from clusters.topology import Role
from harness.history import Event, Recorder
from harness.watchers.copies import Copies
from harness.watchers.watched import WatchedMember
from overlap_parts import HELD, WRITE, Overlapping, Send, held, increment_all, insert, overlapping, sampling, settled
from router_parts import orders

pytestmark = pytest.mark.live


@pytest.fixture
async def observed(replica_set: LocalCluster, tmp_path: Path) -> AsyncIterator[Overlapping]:
    async with overlapping(replica_set, tmp_path) as one:
        yield one


@pytest.mark.parametrize(("kind", "point", "send"), HELD, ids=[one[0] for one in HELD])
async def test_each_execution_is_one_copy_in_the_engine_and_its_resend_waits_for_the_session(
    observed: Overlapping, kind: str, point: str, send: Send
) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    async with sampling(observed) as copies:
        async with held([member], point, **observed.conditions(point)):
            await observed.execute(WRITE, 3, send)
            await observed.until(lambda: bool(observed.of("copies", copies=3, ops=6)), "three copies and resends")
            (alarm,) = copies.alarms().values()
        await observed.until(lambda: bool(observed.of("overlap.cleared")), "the alarm cleared")
    seen = observed.of("copies", copies=3, ops=6)[0]
    assert (seen["member"], seen["namespace"], seen["groups"]) == (primary.name, observed.namespace, 3)
    assert seen["writes"] == {WRITE: 3}
    assert seen["waiting"] == {"fail point": 3, "session": 3}
    assert seen["interval"] < 2
    assert seen["oldest"] > 0.5
    assert (alarm.namespace, alarm.write, alarm.copies, alarm.limit) == (observed.namespace, WRITE, 2, 1)
    assert (alarm.members, alarm.waits_for) == ([primary.name], "fail point")
    sent = {(one["lsid"], one["txn"]) for one in observed.of("send")}
    assert {(group["lsid"], group["txn"]) for group in alarm.groups} < sent
    assert len(sent) == 3
    assert len(observed.of("overlap.alarm")) == 1
    (over,) = observed.of("overlap.cleared")
    assert (over["write"], over["most_copies"]) == (WRITE, 3)
    # Left by all, the collection is told of once more.
    assert observed.of("copies")[-1]["ops"] == 0


async def test_what_fail_command_holds_is_before_the_engine_and_no_copy(observed: Overlapping) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    block = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 2000, "namespace": observed.namespace}
    async with sampling(observed):
        async with held([member], "failCommand", **block):
            await observed.execute(WRITE, 2, insert)
            await observed.until(lambda: bool(observed.of("copies", ops=4)), "four requests that are held")
        await settled(observed)
    seen = observed.of("copies", ops=4)[0]
    assert (seen["copies"], seen["groups"], seen["waiting"]) == (0, 2, {"fail point": 4})
    assert seen["oldest"] > 0.2


async def test_writes_without_a_number_are_copies_each(observed: Overlapping) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    client = observed.open(retryWrites=False)
    async with client, sampling(observed), held([member], "hangDuringBatchInsert", nss=observed.namespace):
        await observed.execute(WRITE, 3, insert, client)
        await observed.until(lambda: bool(observed.of("copies", copies=3, ops=3)), "three copies")
    await settled(observed)
    assert {one["txn"] for one in observed.of("send")} == {None}
    assert len(observed.of("overlap.alarm", write=WRITE)) == 1


async def test_more_writes_on_a_collection_than_it_has_clients_are_an_alarm_whosever_they_are(
    observed: Overlapping,
) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    async with observed.cluster.client(socketTimeoutMS=200, retryWrites=False) as stranger:
        collection = stranger[observed.database][observed.name]
        async with sampling(observed, namespaces=[observed.namespace], clients=2):
            async with held([member], "hangDuringBatchInsert", nss=observed.namespace):
                inserts = [asyncio.create_task(collection.insert_one({"n": n})) for n in range(3)]
                await observed.until(lambda: bool(observed.of("overlap.alarm")), "an alarm")
            await asyncio.wait(inserts)
            await observed.until(lambda: bool(observed.of("overlap.cleared")), "the alarm cleared")
            for one in inserts:
                one.exception()
    (alarm,) = observed.of("overlap.alarm")
    assert (alarm["namespace"], alarm["write"], alarm["limit"]) == (observed.namespace, None, 2)
    assert alarm["group_count"] == 3
    assert observed.of("copies", copies=3)[0]["writes"] == {}


async def test_what_a_fault_sends_to_prove_itself_is_nobodys_write(observed: Overlapping) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    proof = {"insert": observed.name, "documents": [{"n": 1}]}
    async with sampling(observed, namespaces=[observed.namespace], clients=1), admin.connected(member.host) as ours:
        async with held([member], "hangDuringBatchInsert", nss=observed.namespace):
            proving = asyncio.create_task(ours.command(observed.database, proof, deadline=30))
            await observed.execute(WRITE, 1, insert)
            await observed.until(lambda: bool(observed.of("copies", copies=1, ops=2)), "a copy and its resend")
        await proving
        await settled(observed)
    assert {one["groups"] for one in observed.of("copies")} <= {0, 1}
    assert not observed.of("overlap.alarm")


@pytest.mark.slow
async def test_a_frozen_primary_holds_nothing_up_and_keeps_its_alarm_until_it_answers(observed: Overlapping) -> None:
    primary = await primary_of(observed.cluster, "rs0")
    member = observed.cluster.members[primary.name]
    async with sampling(observed) as copies:
        async with held([member], "hangDuringBatchInsert", nss=observed.namespace):
            await observed.execute(WRITE, 2, insert)
            await observed.until(lambda: bool(observed.of("overlap.alarm")), "an alarm")
            member.freeze()
            try:
                await observed.until(lambda: bool(observed.of("copies", member=member.name, ops=None)), "no answer")
                others = [one.name for one in data_members(observed.cluster) if one.name != member.name]
                assert not [one for name in others for one in observed.of("copies", member=name, ops=None)]
                await asyncio.sleep(1.5)
                assert [one.copies for one in copies.alarms().values()] == [2]
                async with sampling(observed):
                    # A second one, begun and ended while it is frozen.
                    await asyncio.sleep(0.3)
            finally:
                member.thaw()
        await observed.until(lambda: bool(observed.of("overlap.cleared")), "the alarm cleared")
    assert len(observed.of("overlap.alarm")) == 1
    await settled(observed)


async def test_a_member_that_is_gone_is_told_of_once_and_what_was_in_it_is_gone_as_well(tmp_path: Path) -> None:
    history: list[Event] = []
    recorder = Recorder(tmp_path / "history.jsonl")
    recorder.subscribe(history.append)
    copies = Copies(recorder, [WatchedMember("rs0-0", "127.0.0.1:1", Role.REPLICA_SET, "rs0")], "r1", every=0.01)
    watching = asyncio.create_task(copies.watch())
    await asyncio.sleep(0.3)
    watching.cancel()
    await asyncio.wait([watching])
    await copies.close()
    recorder.close()
    assert [(one["member"], one["ops"]) for one in history] == [("rs0-0", None)]
    assert copies.ops() == []


@pytest.mark.slow
async def test_a_write_on_two_shards_is_one_copy_on_each_and_one_in_all(sharded: LocalCluster, tmp_path: Path) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"_id": n, "region": n, "qty": 0} for n in (-1, 1)])
        observed = Overlapping(sharded, f"{collection.database.name}.orders", tmp_path / "history.jsonl")
        primaries = [await primary_of(sharded, shard.name) for shard in sharded.topology.shards]
        members = [sharded.members[one.name] for one in primaries]
        async with sampling(observed) as copies, held(members, "hangDuringBatchUpdate", nss=observed.namespace):
            await observed.execute(WRITE, 1, increment_all)
            both = {one.name for one in members}
            await observed.until(lambda: {one["member"] for one in observed.of("copies", copies=1)} == both, "both")
            assert {op.member for op in copies.ops()} == both
            assert not copies.alarms()
            await observed.execute(WRITE, 2, increment_all)
            await observed.until(lambda: bool(observed.of("overlap.alarm")), "an alarm")
        await settled(observed)
        await observed.client.close()
        observed.recorder.close()
    (alarm,) = observed.of("overlap.alarm")
    assert (alarm["write"], alarm["copies"]) == (WRITE, 2)
