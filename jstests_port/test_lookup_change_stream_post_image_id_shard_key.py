"""Upstream: jstests/sharding/query/change_streams/lookup_change_stream_post_image_id_shard_key.js

Post-images of a collection that is sharded by `_id` alone, also after a chunk has moved.

Differs: the cluster has a third shard, which owns nothing.
"""

from __future__ import annotations

import pytest

from jstests_port.change_streams import change_stream, next_change
from jstests_port.sharding_test import ShardingTest


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
async def test_a_document_key_is_the_id_alone_and_finds_its_post_image_after_a_move(
    st: ShardingTest, test_name: str
) -> None:
    coll = st.s[test_name]["coll"]
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
    await coll.insert_many([{"_id": -1}, {"_id": 1}])
    ids = (1000, -1000)
    async with change_stream(coll, {"fullDocument": "updateLookup"}) as stream:
        for id in ids:
            await coll.insert_one({"_id": id})
        for id in ids:
            await coll.update_one({"_id": id}, {"$set": {"updatedCount": 1}})
        for id in ids:
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("insert", {"_id": id})
        for id in ids:
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", {"_id": id})
            assert change["fullDocument"] == {"_id": id, "updatedCount": 1}

        for id in ids:
            await coll.update_one({"_id": id}, {"$set": {"updatedCount": 2}})
        await st.s.admin.command("split", coll.full_name, middle={"_id": 500})
        await st.move_chunk(coll, {"_id": 1000}, st.rs0.name)
        for id in ids:
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", {"_id": id})
            assert change["fullDocument"] == {"_id": id, "updatedCount": 2}
