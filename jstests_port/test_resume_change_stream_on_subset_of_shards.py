"""Upstream: jstests/sharding/query/change_streams/resume_change_stream_on_subset_of_shards.js

A stream of a sharded collection resumes although one of the shards has no chunk of it and has never heard of it.

Differs: nothing but the words.
"""

from __future__ import annotations

from jstests_port.change_streams import change_stream, next_change
from jstests_port.sharding_test import ShardingTest


async def test_a_stream_resumes_although_a_shard_knows_nothing_of_the_collection(
    st: ShardingTest, test_name: str
) -> None:
    coll = st.s[test_name]["test"]
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
    async with change_stream(coll) as stream:
        await coll.insert_one({"_id": -2})
        token = (await next_change(stream))["_id"]
        for id in (-1, 1):
            await coll.insert_one({"_id": id})
        for id in (-1, 1):
            change = await next_change(stream)
            assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": id})
    await coll.insert_one({"_id": 2})
    assert test_name not in await st.shard2.list_database_names()
    async with change_stream(coll, {"resumeAfter": token}) as stream:
        change = await next_change(stream)
        assert change["operationType"] == "insert"
        assert change["documentKey"] == change["fullDocument"] == {"_id": -1}
