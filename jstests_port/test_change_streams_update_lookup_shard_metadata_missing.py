"""Upstream: jstests/sharding/query/change_streams/change_streams_update_lookup_shard_metadata_missing.js

A new primary knows nothing yet of how its collections are sharded. An update of many documents that it carries out all
the same writes the whole document key into the oplog (SERVER-44598): the lookup finds the right one of two documents
with the same `_id`.

Differs: the shards have three members, not two.
"""

from __future__ import annotations

from jstests_port.change_streams import change_stream, next_change
from jstests_port.sharding_test import ShardingTest


async def test_a_new_primary_writes_the_whole_document_key_of_an_update_of_many(
    replicated: ShardingTest, test_name: str
) -> None:
    st = replicated
    await st.enable_sharding(test_name, st.rs0.name)
    coll = st.s[test_name]["test"]
    await st.shard_coll(coll, {"a": 1}, {"a": 0}, {"a": 1})

    async with change_stream(coll) as stream:
        await coll.insert_one({"_id": 0, "a": -100})
        token = (await next_change(stream))["_id"]
    await st.rs0.step_up(await st.rs0.get_secondary())
    await st.wait_until_stable()
    result = await coll.update_many({"_id": 0}, {"$set": {"updated": True}})
    assert result.modified_count == 1

    spec = {"resumeAfter": token, "fullDocument": "updateLookup"}
    async with change_stream(coll, spec) as stream:
        # This one the `_id` alone would find as well.
        assert (await next_change(stream))["fullDocument"] == {"_id": 0, "a": -100, "updated": True}
    await coll.insert_one({"_id": 0, "a": 100})
    async with change_stream(coll, spec) as stream:
        change = await next_change(stream)
        assert change["documentKey"] == {"_id": 0, "a": -100}
        assert change["fullDocument"] == {"_id": 0, "a": -100, "updated": True}
