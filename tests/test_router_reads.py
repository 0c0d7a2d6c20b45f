"""Reads through the router, with an unchanged driver: batches, cursors, read preference, causality, aggregates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Secondary
from pymongo.write_concern import WriteConcern

from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed
from router_parts import DEADLINE, Orders, move_unseen, of_shard, orders, session, to_router, until

pytestmark = pytest.mark.live

COUNT = 600


@pytest.fixture(scope="module")
async def filled(sharded: LocalCluster) -> AsyncIterator[Orders]:
    """COUNT documents, half of them on each shard, known to every secondary."""
    async with orders(sharded) as collection:
        everywhere = collection.with_options(write_concern=WriteConcern(3))
        await everywhere.insert_many([{"_id": n, "region": n - COUNT // 2, "kind": n % 3} for n in range(COUNT)])
        yield collection


async def idle_cursors(cluster: LocalCluster, namespace: str) -> int:
    """Cursors that lie open on any member of the shards."""
    total = 0
    for member in [*of_shard(cluster, "shard0"), *of_shard(cluster, "shard1")]:
        async with member.client() as client:
            stages: list[dict[str, Any]] = [
                {"$currentOp": {"idleCursors": True}},
                {"$match": {"type": "idleCursor", "ns": namespace}},
            ]
            total += len(await (await client.admin.aggregate(stages)).to_list())
    return total


async def test_a_find_in_many_batches_gives_every_document_once(filled: Orders) -> None:
    found = [one["_id"] async for one in filled.find({}, batch_size=50)]
    assert sorted(found) == list(range(COUNT))


async def test_a_sort_holds_across_the_shards(filled: Orders) -> None:
    found = [one["region"] async for one in filled.find({}, batch_size=70).sort("region", -1).skip(5).limit(400)]
    assert found == list(range(COUNT // 2 - 6, COUNT // 2 - 406, -1))


async def test_a_cursor_closed_half_way_is_gone_from_the_shards_too(sharded: LocalCluster, filled: Orders) -> None:
    admin = filled.database.client.admin
    before = (await admin.command("mongofaultRouterStatus"))["cursors"]
    cursor = filled.find({}, batch_size=10)
    await anext(cursor)
    assert await idle_cursors(sharded, filled.full_name) == 2
    await cursor.close()

    async def gone() -> bool:
        return await idle_cursors(sharded, filled.full_name) == 0

    await until(gone, "the end of the cursors on the shards")  # they are told after the answer
    assert (await admin.command("mongofaultRouterStatus"))["cursors"] == before


async def test_kill_cursors_says_what_was_there(sharded: LocalCluster, filled: Orders) -> None:
    connection = await to_router(sharded)
    name, lsid = filled.database.name, session()
    opened = await connection.command(name, {"find": "orders", "batchSize": 2, "lsid": lsid})
    identity = Int64(opened["cursor"]["id"])
    kill = {"killCursors": "orders", "cursors": [identity, Int64(12345)]}
    assert (await connection.command(name, kill))["cursorsKilled"] == [identity]
    assert (await connection.command(name, kill))["cursorsNotFound"] == [identity, 12345]
    with pytest.raises(CommandFailed) as caught:
        await connection.command(name, {"getMore": identity, "collection": "orders", "lsid": lsid})
    assert caught.value.code == 43
    connection.close()


async def test_read_preference_decides_which_members_answer(sharded: LocalCluster, filled: Orders) -> None:
    async def queries() -> list[int]:
        totals = []
        for member in of_shard(sharded, "shard1"):
            async with member.client() as client:
                totals.append((await client.admin.command("serverStatus"))["opcounters"]["query"])
        return totals

    before = await queries()
    secondary = filled.with_options(read_preference=Secondary(), read_concern=ReadConcern("majority"))
    for region in range(20):
        assert await secondary.find_one({"region": region}) is not None
    primary, *secondaries = [after - old for after, old in zip(await queries(), before, strict=True)]
    assert sum(secondaries) >= 20
    assert primary < 20


@pytest.mark.parametrize("retry_writes", [True, False])
async def test_a_causal_session_reads_its_own_writes_on_secondaries(sharded: LocalCluster, retry_writes: bool) -> None:
    async with orders(sharded, retryWrites=retry_writes) as collection:
        client = collection.database.client
        written = collection.with_options(write_concern=WriteConcern("majority"))
        read = collection.with_options(read_preference=Secondary(), read_concern=ReadConcern("majority"))
        async with client.start_session(causal_consistency=True) as chain, asyncio.timeout(DEADLINE):
            for number in range(8):
                region = number if number % 2 else -number
                await written.insert_one({"_id": number, "region": region}, session=chain)
                assert await read.find_one({"region": region, "_id": number}, session=chain) is not None
                assert await read.count_documents({}, session=chain) == number + 1


async def test_aggregate_count_and_distinct_cover_both_shards(filled: Orders) -> None:
    groups = await (await filled.aggregate([{"$group": {"_id": "$kind", "n": {"$sum": 1}}}])).to_list()
    assert {one["_id"]: one["n"] for one in groups} == {0: 200, 1: 200, 2: 200}
    listed = await (await filled.aggregate([{"$match": {"kind": 1}}], batchSize=20)).to_list()
    assert len(listed) == 200
    assert await filled.count_documents({"region": {"$gte": 0}}) == COUNT // 2
    assert await filled.count_documents({}, skip=10, limit=50) == 50
    assert await filled.estimated_document_count() == COUNT
    assert await filled.distinct("kind") == [0, 1, 2]
    assert await filled.distinct("kind", {"region": {"$lt": -298}}) == [0, 1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([None, 1, [2, 1, []], [], "a"], [None, 1, 2, "a", []]), ([], []), ([[[1]]], [[1]])],
)
async def test_distinct_does_to_arrays_what_a_server_does(
    sharded: LocalCluster, values: list[Any], expected: list[Any]
) -> None:
    async with orders(sharded) as collection:
        documents = [{"region": n, "v": value} for n, value in enumerate(values)]
        if documents:
            await collection.insert_many([*documents, {"region": -1}])
        assert await collection.distinct("v") == expected


async def test_an_aggregate_finds_documents_that_moved_behind_the_routers_back(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n} for n in range(-10, 10)])
        for lower in (-9, -6, -3):
            await move_unseen(sharded, collection.full_name, lower, lower + 3, "shard1")
            found = await (await collection.aggregate([{"$match": {"region": {"$lt": 0}}}])).to_list()
            assert len(found) == 10
            assert len(await collection.find({}).to_list()) == 20


def test_the_synchronous_driver_needs_no_change_either(sharded: LocalCluster, filled: Orders) -> None:
    with MongoClient[dict[str, Any]](sharded.uri, compressors="zlib") as client:
        collection = client[filled.database.name].orders
        assert len(list(collection.find({}, batch_size=100))) == COUNT
        assert collection.find_one_and_update({"region": 7}, {"$set": {"seen": True}}) is not None
        assert collection.count_documents({"seen": True}) == 1
        assert client.server_info()["version"].startswith("6.")
        assert client.is_mongos


async def test_distinct_unites_what_the_shards_have(sharded: LocalCluster, replica_set: LocalCluster) -> None:
    """Dotted paths, places in arrays and collations, also on a view: a replica set is the judge."""
    values: list[Any] = [
        {"b": 1},
        [{"b": 2}, {"b": [3, 4]}, 5],
        [[{"b": 9}]],
        None,
        {"b": None},
        {"b": []},
        {"b": [[7]]},
        {"b": 1.0},
    ]
    documents = [{"_id": n, "region": (-1) ** n * n, "a": one, "s": "xX"[n % 2]} for n, one in enumerate(values)]
    asked: list[dict[str, Any]] = [
        {"key": "a.b"}, {"key": "a.0.b"}, {"key": "a.b.0"}, {"key": "a"}, {"key": "$a"}, {"key": "a..b"}, {"key": 3},
        {"key": "s", "collation": {"locale": "en", "strength": 1}}, {"key": "a", "query": {"$where": "this._id > 3"}},
        {"key": "a", "hint": "_id_"}, {"key": "a", "query": 3}, {},
    ]  # fmt: skip
    counted: list[dict[str, Any]] = [{"query": {"$where": "this._id > 3"}}, {"skip": -1}, {"limit": "x"}, {"what": 1},
                                     {"query": {"$where": "this._id > 1"}, "skip": 2, "limit": 3}]  # fmt: skip
    async with orders(sharded) as collection, replica_set.client() as judge:
        name = collection.database.name
        try:
            for database in (collection.database, judge[name]):
                await database.orders.insert_many(documents)
                await database.create_collection("view", viewOn="orders", pipeline=[])
            places = ((collection.database, "orders"), (judge[name], "orders"))
            for command in [{"distinct": "orders", **one} for one in asked] + [
                {"count": "orders", **one} for one in counted
            ]:
                answers = [await _outcome(database, command) for database, _collection in places]
                assert answers[0] == answers[1], command
            on_view = [
                await _outcome(one, {"distinct": "view", "key": "a.b"}) for one in (collection.database, judge[name])
            ]
            assert on_view[0] == on_view[1]
        finally:
            await judge.drop_database(name)


async def _outcome(database: AsyncDatabase[dict[str, Any]], command: dict[str, Any]) -> object:
    """The values, in no certain order and as text but for the case of letters that a collation takes for one."""
    try:
        reply = await database.command(command)
    except OperationFailure as error:
        return error.code
    return sorted(str(one).lower().replace("1.0", "1") for one in reply["values"]) if "values" in reply else reply["n"]


async def test_databases_are_filtered_by_what_all_shards_hold_together(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        await collection.insert_many([{"region": n, "fill": "x" * 1000} for n in range(-10, 10)])
        admin, name = collection.database.client.admin, collection.database.name
        (mine,) = (await admin.command("listDatabases", filter={"name": name}))["databases"]
        assert set(mine["shards"]) == {"shard0", "shard1"}
        more = {"name": name, "sizeOnDisk": {"$gt": max(mine["shards"].values())}}
        assert [one["name"] for one in (await admin.command("listDatabases", filter=more))["databases"]] == [name]
        named = await admin.command("listDatabases", nameOnly=True, filter={"name": name})
        assert named["databases"] == [{"name": name}]


async def test_an_aggregate_over_documents_of_its_own_needs_no_collection(filled: Orders) -> None:
    stages: list[dict[str, Any]] = [
        {"$documents": [{"k": 1}, {"k": 2}]},
        {"$lookup": {"from": "orders", "localField": "k", "foreignField": "region", "as": "found"}},
        {"$project": {"n": {"$size": "$found"}}},
    ]
    assert [one["n"] for one in await (await filled.database.aggregate(stages)).to_list()] == [1, 1]
