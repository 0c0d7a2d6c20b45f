"""`mongofault watch` where something is wrong: it names what hangs and what piles up, and what it advises helps."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pymongo.read_preferences import Secondary

from aftermath import Place
from clusters import admin
from clusters.cluster import of_set, primary_of
from clusters.local import LocalCluster, OwnCluster
from clusters.uri import parse
from harness import exits, stage
from harness.drivers.writers import Document
from harness.history import Event
from harness.watching import telling
from harness.watching.judging import Picture
from harness.watching.looking import Looks
from harness.watching.seats import find
from harness.watching.watch import Pace, Watch
from watch_parts import DEADLINE, consuming, one_look

pytestmark = [pytest.mark.live, pytest.mark.slow]

TAG = {"looks": "here"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.end()


@pytest.fixture
async def stalled(sharded: LocalCluster) -> AsyncIterator[tuple[str, str]]:
    """Streams on a shard's member A whose lookups go to B, which replicates no more: the names of A and B."""
    documents = [
        Document(shard.name, shard.name, {"_id": shard.name, "region": region})
        for region, shard in enumerate(sharded.topology.shards)
    ]
    secondaries = {}
    for shard in sharded.topology.shards:
        primary = await primary_of(sharded, shard.name)
        secondaries[shard.name] = [one.name for one in of_set(sharded, shard.name) if one.name != primary.name]
    a, b = secondaries["shard0"]
    before = await stage.current_tags(sharded, [name for names in secondaries.values() for name in names])
    await stage.make_namespace(sharded, "app.hung", documents)
    await stage.set_tags(sharded, {names[0]: TAG for names in secondaries.values()})
    options = {"read_preference": Secondary([TAG]), "full_document": "updateLookup"}
    try:
        async with (
            consuming(sharded, "hung", **options),
            consuming(sharded, "hung", comment="mine", **options),
            sharded.client() as client,
        ):
            moved = {a: {}, b: TAG}
            await stage.set_tags(sharded, moved)
            await stage.tags_seen(sharded, sharded.members[a], moved)
            async with sharded.members[b].client() as direct:
                await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="alwaysOn")
                try:
                    await client.app.hung.update_one(documents[0].filter, {"$set": {"seq": 1}})
                    yield a, b
                finally:
                    sharded.members[b].thaw()
                    await direct.admin.command("configureFailPoint", "rsSyncApplyStop", mode="off")
    finally:
        await stage.set_tags(sharded, before)
        await stage.recovered(sharded)
        async with sharded.client() as client:
            await client.drop_database("app")


async def test_a_hung_stream_is_named_within_one_look_with_whom_it_waits_for(
    sharded: LocalCluster, stalled: tuple[str, str], place: Place
) -> None:
    a, b = stalled

    async def hang() -> bool:
        return (await one_look(sharded.uri)).counts["silent"] == 2

    await admin.until("both streams hang", hang, deadline=DEADLINE)
    # From another process, as somebody would on the day.
    once = await asyncio.to_thread(place.run, "watch", "--uri", sharded.uri, "--once", "--deadline", "20s")
    assert once.returncode == exits.NOT_AS_EXPECTED, once
    assert f"getMore on {a} runs" in once.stdout
    assert f"waits for {b}" in once.stdout
    assert "(mine)" in once.stdout
    assert f"look at {b} ({sharded.members[b].host})" in once.stdout
    assert f'mongosh "mongodb://{sharded.members[a].host}/?directConnection=true"' in once.stdout
    assert "killOp: 1, op: " in once.stdout
    # And where B cannot be asked at all.
    sharded.members[b].freeze()
    picture = await one_look(sharded.uri, patience=3.0)
    assert list(picture.unseen) == [b]
    assert {one.waits_for for one in picture.silent.values()} == {b}
    assert all(f"2 in use towards {b}" in str(one.known_by) for one in picture.silent.values())
    await killed_as_advised(once.stdout, sharded.members[a].host)

    async def freed() -> bool:
        return not (await one_look(sharded.uri, patience=1.0)).hung

    await admin.until("what was killed hangs no more", freed, deadline=DEADLINE)


async def killed_as_advised(said: str, host: str) -> None:
    """Kill what a watch says is to be killed, where it says."""
    found = re.findall(r'mongosh "mongodb://(\S+)/\?directConnection=true" --eval "(.*?)"', said)
    assert [where for where, _ in found] == [host]
    opids = re.findall(r"killOp: 1, op: (\d+)", found[0][1])
    assert opids
    async with admin.connected(host) as connection:
        for opid in opids:
            await connection.command("admin", {"killOp": 1, "op": int(opid)})


async def test_copies_of_one_write_are_counted_and_end_by_the_command_that_is_advised(
    replica_set: OwnCluster,
) -> None:
    primary = await primary_of(replica_set, "rs0")
    seats = await find(parse(replica_set.uri))
    raised: list[Event] = []
    pictures: list[Picture] = []

    def told(picture: Picture, events: Sequence[Event]) -> None:
        pictures.append(picture)
        raised.extend(events)

    async with replica_set.client() as client, client.start_session() as holder:
        orders = client.app.copies
        await orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        await holder.start_transaction()
        # Everybody else who writes to this document waits for the transaction, again and again.
        await orders.update_one({"_id": 1}, {"$set": {"held": True}}, session=holder)
        copies = [asyncio.create_task(orders.update_one({"_id": 1}, {"$inc": {"n": 1}})) for _ in range(3)]

        async def piled() -> bool:
            raised.clear()
            await Watch(seats, Pace(every=1.0, past=3.0, patience=20.0), told).once()
            return pictures[-1].wrong

        await admin.until("three copies are a pile", piled, deadline=DEADLINE)
        (alarm,) = raised
        assert (alarm.kind, alarm["copies"], pictures[-1].copies) == ("overlap.alarm", 3, 3)
        assert alarm["write"].startswith("update by {_id} #")
        advice = telling.Advice(seats.hosts).on(raised, pictures[-1])
        await killed_as_advised("\n".join(advice), primary.host)
        outcomes = await asyncio.gather(*copies, return_exceptions=True)
        assert {getattr(one, "code", None) for one in outcomes} == {11601}, outcomes
        await holder.abort_transaction()
        await client.app.drop_collection("copies")


async def test_what_cannot_be_reached_is_seen_through_the_router(sharded: LocalCluster) -> None:
    seats = await find(parse(sharded.uri))
    lost = next(one for one in seats.seats if one.name == "shard0-0")
    elsewhere = [replace(one, host="127.0.0.1:1") if one is lost else one for one in seats.seats]
    looks = Looks(replace(seats, seats=elsewhere), every=1.0, patience=10.0)
    try:
        async with consuming(sharded, "through"):
            await looks.once()
            assert looks.unseen == {}
            assert any(leg.member == "shard0-0" for leg in looks.readings["shard0-0"].legs)

        # Nothing is told of it when nothing goes on in it, and that is not the same as having been seen.
        async def nothing_told() -> bool:
            await looks.once()
            return list(looks.unseen) == ["shard0-0"] and "shard0-0" not in looks.readings

        await admin.until("shard0-0 is unseen", nothing_told, deadline=DEADLINE)
    finally:
        await looks.close()
