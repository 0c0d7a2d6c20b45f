"""Upstream: jstests/sharding/query/change_streams/change_stream_against_shard_mongod.js

A stream with update lookups on a sharded collection can be opened on the shard's member itself (SERVER-44977).

Differs: the cluster has two shards more, which own nothing.
"""

from __future__ import annotations

from jstests_port.change_streams import change_stream, next_change
from jstests_port.mongo import Document
from jstests_port.sharding_test import ShardingTest


async def test_an_update_lookup_stream_of_a_sharded_collection_runs_on_the_shards_member(
    st: ShardingTest, test_name: str
) -> None:
    await st.enable_sharding(test_name, st.rs0.name)
    coll = st.s[test_name]["test"]
    await st.s.admin.command("shardCollection", coll.full_name, key={"a": 1})
    async with change_stream(st.shard0[test_name]["test"], {"fullDocument": "updateLookup"}) as stream:
        await coll.insert_one({"_id": 0, "a": -100})
        await coll.update_one({"a": -100}, {"$set": {"updated": True}})
        document: Document = {"_id": 0, "a": -100}
        for kind, expected in (("insert", document), ("update", {**document, "updated": True})):
            change = await next_change(stream)
            assert (change["operationType"], change["fullDocument"]) == (kind, expected)
