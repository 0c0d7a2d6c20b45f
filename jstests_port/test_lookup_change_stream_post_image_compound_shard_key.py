"""Upstream: jstests/sharding/query/change_streams/lookup_change_stream_post_image_compound_shard_key.js

Post-images of a collection that is sharded by three fields, in a stream of the collection and one of its database, also
after a chunk has moved.

Differs: the cluster has a third shard, which owns nothing.
"""

from __future__ import annotations

import pytest
from bson.min_key import MinKey

from jstests_port.change_streams import change_stream, next_change
from jstests_port.mongo import Document
from jstests_port.sharding_test import ShardingTest

B_VALUES = ("one", "two", "three", "four", "five", "six")


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
async def test_a_document_key_has_all_fields_of_the_shard_key_and_finds_its_post_image_after_a_move(
    st: ShardingTest, test_name: str
) -> None:
    coll = st.s[test_name]["coll"]
    middle = {"a": 1, "b": MinKey(), "c": MinKey()}
    await st.shard_coll(coll, {"a": 1, "b": 1, "c": 1}, middle, middle)
    spec = {"fullDocument": "updateLookup"}
    keys = [_document_key(id) for id in range(len(B_VALUES))]
    async with change_stream(coll, spec) as of_collection, change_stream(coll.database, spec) as of_database:
        for key in keys:
            await coll.insert_one(dict(key))
            await coll.update_one(key, {"$set": {"updatedCount": 1}})
        for stream in (of_collection, of_database):
            for key in keys:
                change = await next_change(stream)
                assert (change["operationType"], change["documentKey"]) == ("insert", key)
                change = await next_change(stream)
                assert (change["operationType"], change["documentKey"]) == ("update", key)
                assert change["fullDocument"] == {**key, "updatedCount": 1}

        for key in keys:
            await coll.update_one(key, {"$set": {"updatedCount": 2}})
        await st.move_chunk(coll, middle, st.rs0.name)
        for stream in (of_collection, of_database):
            for key in keys:
                change = await next_change(stream)
                assert (change["operationType"], change["documentKey"]) == ("update", key)
                assert change["fullDocument"] == {**key, "updatedCount": 2}


def _document_key(id: int) -> Document:
    """A third of them on shard0, two thirds on shard1."""
    return {"_id": id, "a": id % 3, "b": B_VALUES[id], "c": id % 2}
