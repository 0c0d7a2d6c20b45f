"""Writes through the router, with an unchanged driver: numbered ones targeted, the others passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure, WriteError
from pymongo.write_concern import WriteConcern

from clusters.local import LocalCluster
from router_parts import Orders, count_on, of_shard, orders, router_host, session, to_router, until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module", params=[True, False], ids=["numbered", "un-numbered"])
async def either(sharded: LocalCluster, request: pytest.FixtureRequest) -> AsyncIterator[Orders]:
    """The same collection API with retryWrites on and off: two quite different ways through the router."""
    async with orders(sharded, retryWrites=request.param) as collection:
        yield collection


@pytest.fixture(scope="module")
async def numbered(sharded: LocalCluster) -> AsyncIterator[Orders]:
    async with orders(sharded) as collection:
        yield collection


@pytest.fixture(autouse=True)
async def emptied(request: pytest.FixtureRequest) -> None:
    for name in ("either", "numbered"):
        if name in request.fixturenames:
            await request.getfixturevalue(name).delete_many({})


async def test_documents_land_on_the_shard_that_owns_them(sharded: LocalCluster, either: Orders) -> None:
    await either.insert_many([{"_id": n, "region": n} for n in range(-30, 50)])
    assert await count_on(sharded, "shard0", either, {"region": {"$gte": 0}}) == 0
    assert await count_on(sharded, "shard0", either, {}) == 30
    assert await count_on(sharded, "shard1", either, {}) == 50


@pytest.mark.parametrize(("ordered", "inserted", "failed"), [(True, 2, [2]), (False, 4, [2, 4])])
async def test_a_duplicate_ends_an_ordered_batch_and_not_an_unordered_one(
    either: Orders, ordered: bool, inserted: int, failed: list[int]
) -> None:
    batch = [{"_id": one, "region": one} for one in (1, -1, 1, 2, -1, -2)]
    with pytest.raises(BulkWriteError) as caught:
        await either.insert_many(batch, ordered=ordered)
    details = caught.value.details
    assert details is not None
    assert details["nInserted"] == inserted
    assert [(one["index"], one["code"]) for one in details["writeErrors"]] == [(index, 11000) for index in failed]
    assert await either.count_documents({}) == inserted


async def test_single_document_writes_by_key_and_by_id(either: Orders) -> None:
    await either.insert_many([{"_id": "a", "region": -5, "n": 0}, {"_id": "b", "region": 5, "n": 0}])
    assert (await either.update_one({"region": 5}, {"$inc": {"n": 1}})).modified_count == 1
    assert (await either.update_one({"_id": "a"}, {"$inc": {"n": 1}})).modified_count == 1
    assert (await either.update_one({"_id": "a", "region": 5}, {"$inc": {"n": 1}})).matched_count == 0
    assert (await either.update_one({"_id": "none"}, {"$inc": {"n": 1}})).matched_count == 0
    assert (await either.replace_one({"_id": "b"}, {"region": 5, "n": 7})).modified_count == 1
    upsert = await either.update_one({"region": -9, "_id": "c"}, {"$set": {"n": 3}}, upsert=True)
    assert upsert.upserted_id == "c"
    assert {one["_id"]: one["n"] async for one in either.find()} == {"a": 1, "b": 7, "c": 3}
    assert (await either.delete_one({"_id": "a"})).deleted_count == 1
    assert (await either.delete_one({"region": 5})).deleted_count == 1
    assert (await either.delete_many({})).deleted_count == 1


async def test_a_mixed_bulk_counts_what_each_part_did(either: Orders) -> None:
    result = await either.bulk_write(
        [
            InsertOne({"_id": 1, "region": 1}),
            InsertOne({"_id": -1, "region": -1}),
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            UpdateMany({}, {"$set": {"b": 1}}),
            ReplaceOne({"region": -7, "_id": "r"}, {"region": -7}, upsert=True),
            DeleteOne({"region": -1}),
        ]
    )
    counts = (result.inserted_count, result.matched_count, result.upserted_count, result.deleted_count)
    assert counts == (2, 3, 1, 1)
    assert result.upserted_ids == {4: "r"}


async def test_find_and_modify_on_sharded_and_unsharded_collections(either: Orders) -> None:
    await either.insert_one({"_id": 1, "region": 3, "n": 0})
    after = ReturnDocument.AFTER
    changed = await either.find_one_and_update({"region": 3}, {"$inc": {"n": 1}}, return_document=after)
    assert changed == {"_id": 1, "region": 3, "n": 1}
    assert await either.find_one_and_delete({"region": 3}) == changed
    assert await either.find_one_and_update({"region": 3}, {"$inc": {"n": 1}}) is None
    plain = either.database.plain
    made = await plain.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, upsert=True, return_document=after)
    assert made == {"_id": 1, "n": 1}
    assert await plain.find_one_and_replace({"_id": 1}, {"n": 9}, return_document=after) == {"_id": 1, "n": 9}
    assert await plain.find_one_and_delete({}) == {"_id": 1, "n": 9}


@pytest.mark.parametrize(("query", "upsert", "code"), [({"x": 1}, False, 72), ({"_id": 1}, True, 61)])
async def test_an_update_that_names_no_shard_fails_as_on_a_mongos(
    either: Orders, query: dict[str, Any], upsert: bool, code: int
) -> None:
    with pytest.raises(WriteError) as caught:
        await either.update_one(query, {"$set": {"a": 1}}, upsert=upsert)
    assert caught.value.code == code


async def test_find_and_modify_without_the_shard_key_fails_as_on_a_mongos(either: Orders) -> None:
    with pytest.raises(OperationFailure, match="must contain the shard key") as caught:
        await either.find_one_and_update({"_id": 1}, {"$set": {"a": 1}})
    assert caught.value.code == 61


async def test_a_write_that_would_move_its_document_is_refused_and_changes_nothing(numbered: Orders) -> None:
    await numbered.insert_one({"_id": 1, "region": 1})
    for change in (
        numbered.update_one({"region": 1}, {"$set": {"region": -1}}),
        numbered.find_one_and_update({"region": 1}, {"$set": {"region": -1}}),
    ):
        with pytest.raises(OperationFailure, match="the stand-in router does not") as caught:
            await change
        assert caught.value.code == 283
    await numbered.update_one({"region": 1}, {"$set": {"region": 2}})  # stays on its shard
    assert await numbered.find().to_list() == [{"_id": 1, "region": 2}]


@pytest.mark.parametrize("query", [{"region": 4}, {"_id": 4}], ids=["by key", "by id"])
async def test_a_write_sent_twice_under_one_number_applies_once(
    sharded: LocalCluster, numbered: Orders, query: dict[str, Any]
) -> None:
    await numbered.insert_one({"_id": 4, "region": 4, "n": 0})
    write = {
        "update": "orders",
        "updates": [{"q": query, "u": {"$inc": {"n": 1}}}],
        "lsid": session(),
        "txnNumber": Int64(1),
    }
    connection = await to_router(sharded)
    replies = [await connection.command(numbered.database.name, write) for _ in range(2)]
    assert [(one["n"], one["nModified"]) for one in replies] == [(1, 1), (1, 1)]
    assert [one.get("retriedStmtIds") for one in replies] == [None, [0]]
    assert await numbered.find_one({"_id": 4}) == {"_id": 4, "region": 4, "n": 1}
    connection.close()


async def test_an_insert_over_both_shards_sent_twice_inserts_once(sharded: LocalCluster, numbered: Orders) -> None:
    documents = [{"_id": n, "region": n} for n in range(-5, 5)]
    write = {"insert": "orders", "documents": documents, "lsid": session(), "txnNumber": Int64(1), "ordered": False}
    connection = await to_router(sharded)
    replies = [await connection.command(numbered.database.name, write) for _ in range(2)]
    assert [one["n"] for one in replies] == [10, 10]
    assert replies[1]["retriedStmtIds"] == list(range(10))
    assert await numbered.count_documents({}) == 10
    connection.close()


async def test_find_and_modify_sent_twice_answers_the_same_document(sharded: LocalCluster, numbered: Orders) -> None:
    await numbered.insert_one({"_id": 4, "region": 4, "n": 0})
    write = {
        "findAndModify": "orders",
        "query": {"region": 4},
        "update": {"$inc": {"n": 1}},
        "new": True,
        "lsid": session(),
        "txnNumber": Int64(1),
    }
    connection = await to_router(sharded)
    replies = [await connection.command(numbered.database.name, write) for _ in range(2)]
    assert [one["value"]["n"] for one in replies] == [1, 1]
    connection.close()


FAILURES: list[dict[str, Any]] = [
    {"closeConnection": True},
    {"errorCode": 10107},
    {"errorCode": 91},
    {"writeConcernError": {"code": 11602, "errmsg": "operation was interrupted"}},
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: next(iter(one)) + str(one.get("errorCode", "")))
@pytest.mark.parametrize("command", ["update", "findAndModify"])
async def test_the_router_sends_a_numbered_write_again_to_the_next_primary(
    sharded: LocalCluster, numbered: Orders, command: str, failure: dict[str, Any]
) -> None:
    """As a mongos does: the driver gets no label to retry on, and needs none."""
    await numbered.insert_one({"_id": 4, "region": 4, "n": 0})
    async with of_shard(sharded, "shard1")[0].client() as primary:
        data = {"failCommands": [command], "failInternalCommands": True, "namespace": numbered.full_name, **failure}
        before = await primary.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
        if command == "update":
            assert (await numbered.update_one({"region": 4}, {"$inc": {"n": 1}})).modified_count == 1
        else:
            assert await numbered.find_one_and_update({"region": 4}, {"$inc": {"n": 1}}) is not None
        after = await primary.admin.command("configureFailPoint", "failCommand", mode="off")
    assert after["count"] == before["count"] + 1
    found = await numbered.find_one({"_id": 4})
    assert found is not None
    assert found["n"] == 1


@pytest.mark.parametrize("command", ["insert", "update", "delete"])
async def test_an_un_numbered_write_that_the_router_host_calls_stale_is_sent_again(
    sharded: LocalCluster, command: str
) -> None:
    """304 ShardInvalidatedForTargeting, as its in-process router answers now and then; a mongos never tells it."""
    writes: dict[str, dict[str, Any]] = {
        "insert": {"documents": [{"_id": 5, "region": 5}, {"_id": -5, "region": -5}], "ordered": False},
        "update": {"updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]},
        "delete": {"deletes": [{"q": {"region": {"$lt": 9}}, "limit": 0}]},
    }
    async with orders(sharded, retryWrites=False) as collection, router_host(sharded).client() as host:
        await collection.insert_many([{"_id": n, "region": n, "n": 0} for n in (-1, 1)])
        failure = {"failCommands": [f"cluster{command.title()}"], "failInternalCommands": True, "errorCode": 304}
        data = {**failure, "namespace": collection.full_name, "errorExtraInfo": {"nss": collection.full_name}}
        before = await host.admin.command("configureFailPoint", "failCommand", mode={"times": 2}, data=data)
        reply = await collection.database.command(command, "orders", **writes[command])
        after = await host.admin.command("configureFailPoint", "failCommand", mode="off")
        assert after["count"] == before["count"] + 2
        assert (reply["n"], reply.get("writeErrors")) == (2, None)
        expected = {"insert": [0, 0, None, None], "update": [1, 1], "delete": []}[command]
        assert [one.get("n") async for one in collection.find().sort("n", -1)] == expected


async def test_a_reply_tells_a_time_that_covers_the_write(sharded: LocalCluster, either: Orders) -> None:
    """A causal read after it must wait for at least the newest entry of the shard's oplog."""
    reply = await either.database.command("insert", "orders", documents=[{"_id": 1, "region": 1}])
    member = next(one for one in sharded.members.values() if one.name == "shard1-0")
    async with member.client() as client:
        match = {"op": "i", "ns": either.full_name}
        entry = await client.local["oplog.rs"].find(match).sort("$natural", -1).limit(1).to_list()
    assert reply["operationTime"] >= entry[0]["ts"]


async def test_an_unacknowledged_write_arrives(either: Orders) -> None:
    unheard = either.with_options(write_concern=WriteConcern(0))
    await unheard.insert_one({"_id": 1, "region": 1})

    async def arrived() -> bool:
        return await either.count_documents({}) == 1

    await until(arrived, "the write has arrived")


async def test_a_write_concern_that_cannot_be_met_is_told(either: Orders) -> None:
    unmet = either.with_options(write_concern=WriteConcern(5, wtimeout=1))
    with pytest.raises(OperationFailure, match=r"(?i)not enough data-bearing|waiting for replication|Unsatisfiable"):
        await unmet.insert_one({"_id": 1, "region": 1})
    assert await either.count_documents({}) == 1


async def test_a_write_finishes_though_its_client_went_away(sharded: LocalCluster, numbered: Orders) -> None:
    """The outcome must not hang on who listens: a copy left behind by a client's time-out runs to its end."""
    connection = await to_router(sharded)
    documents = [{"_id": n, "region": n % 7 - 3} for n in range(600)]
    write = {"insert": "orders", "documents": documents, "lsid": session(), "txnNumber": Int64(1)}
    task = asyncio.create_task(connection.command(numbered.database.name, write))

    async def begun() -> bool:
        return await numbered.count_documents({}) > 0

    async def complete() -> bool:
        return await numbered.count_documents({}) == len(documents)

    await until(begun, "the write has begun")
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(complete, "the write is complete")


async def test_writes_make_databases_and_collections_as_they_go(sharded: LocalCluster, either: Orders) -> None:
    client = either.database.client
    name = either.database.name + "_new"
    assert (await client[name].things.delete_one({"_id": 1})).deleted_count == 0
    await client[name].things.insert_one({"_id": 1})
    assert await client[name].things.find().to_list() == [{"_id": 1}]
    shards = await client.config.databases.find({"_id": name}).to_list()
    assert shards[0]["primary"] in ("shard0", "shard1")
    await client.drop_database(name)


async def test_settings_of_the_cluster_are_written_on_the_config_servers(either: Orders) -> None:
    settings = either.database.client.config.settings
    await settings.update_one({"_id": "router test"}, {"$set": {"a": 1}}, upsert=True)
    assert await settings.find_one({"_id": "router test"}) == {"_id": "router test", "a": 1}
    assert (await settings.delete_one({"_id": "router test"})).deleted_count == 1
