"""Upstream: jstests/sharding/query/change_streams/lookup_change_stream_post_image_hashed_shard_key.js

Post-images of a collection that is sharded by a hash, a thousand inserts and updates in turn, in their order.

Differs: the cluster has a third shard, which owns nothing; the halves are placed by moveRange. Upstream's loop that
goes on after a step-down has no counterpart: nobody steps down here.
"""

from __future__ import annotations

import pytest
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey

from jstests_port.change_streams import change_stream, next_change
from jstests_port.sharding_test import ShardingTest

DOCUMENTS = 1000
"""Enough for some of them to be on each shard."""


@pytest.mark.needs_server("6.0", "moveRange")
async def test_a_thousand_hashed_documents_are_followed_in_order_each_with_its_post_image(
    st: ShardingTest, test_name: str
) -> None:
    coll = st.s[test_name]["coll"]
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", coll.full_name, key={"shardKey": "hashed"}, numInitialChunks=2)
    for lower, upper, to in ((MinKey(), Int64(0), st.rs0), (Int64(0), MaxKey(), st.rs1)):
        await st.s.admin.command(
            "moveRange", coll.full_name, min={"shardKey": lower}, max={"shardKey": upper}, toShard=to.name
        )

    async with change_stream(coll, {"fullDocument": "updateLookup"}) as stream:
        for id in range(DOCUMENTS):
            await coll.insert_one({"_id": id, "shardKey": id})
            await coll.update_one({"shardKey": id}, {"$set": {"updatedCount": 1}})
        for id in range(DOCUMENTS):
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("insert", {"shardKey": id, "_id": id})
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", {"shardKey": id, "_id": id})
            assert change["fullDocument"] == {"_id": id, "shardKey": id, "updatedCount": 1}
    for shard in (st.shard0, st.shard1):
        assert await shard[test_name]["coll"].count_documents({}) > DOCUMENTS / 4
