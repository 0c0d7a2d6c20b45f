"""Sharding with every kind of key, zones, splits and moves, as a mongos offers them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from pymongo import UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from clusters.local import LocalCluster
from clusters.router.hashing import hashed
from router_parts import count_on

pytestmark = pytest.mark.live

Base = AsyncDatabase[dict[str, Any]]


@pytest.fixture(scope="module")
async def base(sharded: LocalCluster) -> AsyncIterator[Base]:
    async with sharded.client() as client:
        name = f"sharding_{uuid.uuid4().hex[:8]}"
        await client.admin.command("enableSharding", name, primaryShard="shard0")
        yield client[name]
        await client.drop_database(name)


async def shard(base: Base, collection: str, key: dict[str, Any], **options: Any) -> str:
    namespace = f"{base.name}.{collection}"
    reply = await base.client.admin.command("shardCollection", namespace, key=key, **options)
    assert reply["collectionsharded"] == namespace
    return namespace


async def chunks(base: Base, collection: str) -> list[dict[str, Any]]:
    catalog = base.client.config
    entry = await catalog.collections.find_one({"_id": f"{base.name}.{collection}"})
    assert entry is not None
    return await catalog.chunks.find({"uuid": entry["uuid"]}).sort("min", 1).to_list()


async def test_a_hashed_key_spreads_documents_and_each_is_found_by_its_hash(sharded: LocalCluster, base: Base) -> None:
    """The router hashes for numbered writes, the router host for reads: they agree on every document."""
    await shard(base, "hashed", {"k": "hashed"}, numInitialChunks=6)
    owners = Counter(one["shard"] for one in await chunks(base, "hashed"))
    assert owners == {"shard0": 3, "shard1": 3}
    values = [*range(-20, 20), 1.5, "text", None, {"a": [1]}, True, 2.0**70, Int64(2**40)]
    collection = base.hashed
    await collection.insert_many([{"_id": place, "k": value} for place, value in enumerate(values)])
    await collection.bulk_write([UpdateOne({"k": value}, {"$inc": {"n": 1}}) for value in values], ordered=False)
    for value in values:
        assert await collection.find_one_and_update({"k": value}, {"$inc": {"n": 1}}) is not None
    by_key = [await collection.find_one({"k": value}) for value in values]
    assert all(one is not None and one["n"] == 2 for one in by_key)
    held = [await count_on(sharded, name, collection, {}) for name in ("shard0", "shard1")]
    assert sum(held) == len(values) == await collection.count_documents({})
    assert min(held) > 5
    assert (await collection.delete_one({"k": "text"})).deleted_count == 1


async def test_a_hashed_prefix_and_a_hashed_field_behind_a_range_field(sharded: LocalCluster, base: Base) -> None:
    await shard(base, "behind", {"a": 1, "b": "hashed"})
    middle = {"a": 5, "b": hashed(7)}
    await base.client.admin.command("moveRange", f"{base.name}.behind", min=middle, toShard="shard1")
    await shard(base, "prefix", {"b": "hashed", "a": 1}, numInitialChunks=4)
    for name in ("behind", "prefix"):
        await base[name].insert_many([{"a": a, "b": b} for a in (4, 5, 6) for b in range(10)])
        for a, b in ((4, 1), (5, 6), (5, 7), (6, 0)):
            assert (await base[name].update_one({"a": a, "b": b}, {"$set": {"seen": 1}})).modified_count == 1
        assert await base[name].count_documents({"seen": 1}) == 4
    assert await count_on(sharded, "shard0", base.behind, {"a": 6}) == 0
    assert await count_on(sharded, "shard1", base.behind, {"a": 4}) == 0


async def test_the_options_of_shard_collection_reach_the_servers(base: Base) -> None:
    await shard(base, "alone", {"k": 1}, unique=True)
    indexes = await base.alone.index_information()
    assert indexes["k_1"].get("unique") is True
    await base.create_collection("german", collation={"locale": "de"})
    with pytest.raises(OperationFailure):
        await shard(base, "german", {"k": 1})
    await shard(base, "german", {"k": 1}, collation={"locale": "simple"})
    with pytest.raises(OperationFailure, match="unique"):
        await shard(base, "wrong", {"k": "hashed"}, unique=True)
    with pytest.raises(OperationFailure, match=r"numInitialChunks|hashed"):
        await shard(base, "wrong", {"k": 1}, numInitialChunks=4)


async def test_a_collection_sharded_with_zones_set_before_lies_in_its_zones(base: Base) -> None:
    admin = base.client.admin
    low, high = f"low_{base.name}", f"high_{base.name}"
    for name, zone in (("shard0", low), ("shard1", high)):
        assert (await admin.command("addShardToZone", name, zone=zone))["ok"] == 1
    edges: dict[str, list[dict[str, Any]]] = {
        "zoned": [{"k": edge} for edge in (0, 10, 20)],
        "presplit": [{"k": edge, "h": MinKey()} for edge in (0, 10, 20)],
    }
    for name, (least, middle, most) in edges.items():
        namespace = f"{base.name}.{name}"
        await admin.command("updateZoneKeyRange", namespace, min=least, max=middle, zone=low)
        await admin.command("updateZoneKeyRange", namespace, min=middle, max=most, zone=high)
    await shard(base, "zoned", {"k": 1})
    await shard(base, "presplit", {"k": 1, "h": "hashed"}, presplitHashedZones=True)
    for name in edges:
        inside = [one for one in await chunks(base, name) if one["min"]["k"] in (0, 10)]
        assert {(one["min"]["k"], one["shard"]) for one in inside} == {(0, "shard0"), (10, "shard1")}
    with pytest.raises(OperationFailure) as caught:  # still in use
        await admin.command("removeShardFromZone", "shard1", zone=high)
    assert caught.value.code == 163
    for name, (least, middle, most) in edges.items():
        for lower, upper in ((least, middle), (middle, most)):
            await admin.command("updateZoneKeyRange", f"{base.name}.{name}", min=lower, max=upper, zone=None)
    for name, zone in (("shard0", low), ("shard1", high)):
        await admin.command("removeShardFromZone", name, zone=zone)
    assert await base.client.config.tags.count_documents({"tag": {"$in": [low, high]}}) == 0
    with pytest.raises(OperationFailure) as caught:
        await admin.command("addShardToZone", "no such shard", zone=low)
    assert caught.value.code == 70


async def test_chunks_are_split_at_a_point_or_a_median_and_moved_by_what_lies_in_them(base: Base) -> None:
    admin = base.client.admin
    namespace = await shard(base, "split", {"k": 1})
    await base.split.insert_many([{"k": n} for n in range(100)])
    await admin.command("split", namespace, middle={"k": 50})
    await admin.command("split", namespace, find={"k": 99})
    bounds = [(await chunks(base, "split"))[0][edge] for edge in ("min", "max")]
    await admin.command("split", namespace, bounds=bounds)
    lower = [one["min"]["k"] for one in await chunks(base, "split")]
    assert len(lower) == 4
    assert (lower[0], lower[2]) == (MinKey(), 50)
    assert 0 < lower[1] < 50 < lower[3] < 100
    reply = await admin.command("moveChunk", namespace, find={"k": 99}, to="shard1")
    assert reply["millis"] >= 0
    bounds = [{"k": lower[1]}, {"k": 50}]
    await admin.command("moveChunk", namespace, bounds=bounds, to="shard1", _waitForDelete=True)
    assert [one["shard"] for one in await chunks(base, "split")] == ["shard0", "shard1", "shard0", "shard1"]
    refused: list[tuple[dict[str, Any], int]] = [
        ({"split": namespace, "middle": {"k": 50}}, 72),
        ({"split": namespace, "middle": {"x": 50}}, 61),
        ({"split": namespace}, 9),
        ({"split": namespace, "find": {"x": 1}}, 61),
        ({"moveChunk": namespace, "find": {"x": 1}, "to": "shard1"}, 61),
        ({"moveChunk": namespace, "bounds": [{"k": 1}, {"k": 2}], "to": "shard1"}, 72),
        ({"moveChunk": namespace, "to": "shard1"}, 9),
        ({"moveChunk": namespace, "find": {"k": 1}, "to": "nowhere"}, 70),
        ({"moveRange": f"{base.name}.unsharded", "min": {"k": 1}, "toShard": "shard1"}, 118),
    ]
    for command, code in refused:
        with pytest.raises(OperationFailure) as caught:
            await admin.command(command)
        assert caught.value.code == code, command


async def test_a_chunk_of_a_hashed_key_is_found_by_the_value_and_moved_by_its_bounds(base: Base) -> None:
    admin = base.client.admin
    namespace = await shard(base, "moved", {"k": "hashed"}, numInitialChunks=4)
    await base.moved.insert_many([{"_id": n, "k": n} for n in range(20)])
    held = next(one for one in await chunks(base, "moved") if _lies_in(one, hashed(7)))
    other = "shard1" if held["shard"] == "shard0" else "shard0"
    await admin.command("moveChunk", namespace, find={"k": 7}, to=other)
    moved = next(one for one in await chunks(base, "moved") if _lies_in(one, hashed(7)))
    assert (moved["min"], moved["shard"]) == (held["min"], other)
    assert (await base.moved.update_one({"k": 7}, {"$set": {"seen": 1}})).modified_count == 1
    await admin.command("moveChunk", namespace, bounds=[held["min"], held["max"]], to=held["shard"])


def _lies_in(chunk: dict[str, Any], value: int) -> bool:
    lower, upper = chunk["min"]["k"], chunk["max"]["k"]
    return bool((lower == MinKey() or lower <= value) and (upper == MaxKey() or value < upper))
