"""Upstream: jstests/sharding/query/change_streams/change_stream_update_lookup_collation.js

An update lookup is targeted by the simple collation, as shard keys are, and carried out with the collection's own; that
of the stream plays no part in it.

Differs: 6.0.24 and 6.0.27 look up with the simple collation, which the index of the shard key has (6.0.5 does not).
"""

from __future__ import annotations

import pytest
from pymongo.collation import Collation

from jstests_port import servers
from jstests_port.change_streams import Collection, change_stream, next_change
from jstests_port.mongo import Document, Mongo
from jstests_port.sharding_test import ShardingTest

SIMPLE = Collation(locale="simple")
CASE_INSENSITIVE = Collation(locale="en_US", strength=2)
STRENGTH_ONE = Collation(locale="en_US", strength=1)
"""To which "ç" is "c" and "C"."""
LOWER = {"shardKey": "abc", "_id": "abc_1"}
UPPER = {"shardKey": "ABC", "_id": "abc_1"}
SIMPLE_SINCE = (6, 0, 24)
"""Of 6.0's servers the first that was seen to look up by the simple collation."""


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
async def test_a_lookup_is_targeted_by_the_simple_collation_and_carried_out_with_the_collections(
    st: ShardingTest, test_name: str
) -> None:
    await st.enable_sharding(test_name, st.rs0.name)
    coll = await st.s[test_name].create_collection(test_name, collation=CASE_INSENSITIVE)
    await st.s.admin.command("shardCollection", coll.full_name, key={"shardKey": 1}, collation=SIMPLE.document)
    # "ABC" and "abc" are on different shards; by the collection's collation they are the same.
    await st.s.admin.command("split", coll.full_name, middle={"shardKey": "aBC"})
    await st.move_chunk(coll, {"shardKey": "ABC"}, st.rs1.name)
    for shard_key in ("ABC", "abc"):
        await coll.insert_many([{"_id": id, "shardKey": shard_key} for id in ("abc_1", "abc_2")])

    async with change_stream(coll, {"fullDocument": "updateLookup"}) as stream:
        for key in (LOWER, UPPER):
            await _update_one(coll, key, 1)
        before = await _index_uses(st, coll)
        for key in (LOWER, UPPER):
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", key)
            assert change["fullDocument"] == {**key, "updatedCount": 1}
        assert await _index_uses(st, coll) == _once_more(before)

    # By the collation of this stream these are the same as those; for its lookups they are not.
    for shard_key in ("ABÇ", "abç"):
        await coll.insert_many([{"_id": id, "shardKey": shard_key} for id in ("abç_1", "abç_2")])
    assert len(await coll.find({"shardKey": "abc"}, collation=STRENGTH_ONE).to_list()) == 8
    only = [{"$match": {"fullDocument.shardKey": "abc"}}]
    async with change_stream(coll, {"fullDocument": "updateLookup"}, only, collation=STRENGTH_ONE) as stream:
        for key in (UPPER, LOWER):
            await _update_one(coll, key, 2)
        before = await _index_uses(st, coll)
        for key in (UPPER, LOWER):
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", key)
            assert change["fullDocument"] == {**key, "updatedCount": 2}
        assert await _index_uses(st, coll) == _once_more(before)


async def _update_one(coll: Collection, key: Document, count: int) -> None:
    """One document on one shard, so that the two updates have different times."""
    result = await coll.update_one(key, {"$set": {"updatedCount": count}}, collation=SIMPLE)
    assert result.modified_count == 1


async def _index_uses(st: ShardingTest, coll: Collection) -> list[dict[str, int]]:
    """By index, on each of the two shards."""
    return [await _uses(shard, coll) for shard in (st.shard0, st.shard1)]


async def _uses(shard: Mongo, coll: Collection) -> dict[str, int]:
    found = await shard[coll.database.name][coll.name].aggregate([{"$indexStats": {}}])
    return {one["name"]: int(one["accesses"]["ops"]) async for one in found}


def _once_more(before: list[dict[str, int]]) -> list[dict[str, int]]:
    """One lookup on each shard: the collection's collation is that of the index of _id, which serves no other."""
    simple = SIMPLE_SINCE <= servers.numbers() < (7,)
    index = "shardKey_1" if simple else "_id_"
    return [{**one, index: one[index] + 1} for one in before]
