"""Upstream: jstests/sharding/query/change_streams/resume_change_stream_from_stale_mongos.js

A stream resumed through a router that takes the collection for unsharded, while it has become sharded meanwhile, has
the events of all shards.

Differs: the second router has read the collection before, so that it does have that opinion. Two stand-ins share the
mongod that runs their commands, and with it what that knows; what is their own is the targeting of streams.
"""

from __future__ import annotations

from jstests_port.change_streams import change_stream, next_change
from jstests_port.sharding_test import ShardingTest


async def test_a_stream_resumed_through_a_stale_router_has_the_events_of_all_shards(test_name: str) -> None:
    async with ShardingTest(2, 1, routers=2) as st:
        await st.enable_sharding(test_name, st.rs0.name)
        coll, stale = st.s[test_name]["test"], st.s1[test_name]["test"]
        async with change_stream(coll) as stream:
            for id in (-1, 1):
                await coll.insert_one({"_id": id})
            for id in (-1, 1):
                change = await next_change(stream)
                assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": id})
            assert await stale.count_documents({}) == 2

            await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
            for id in (-2, 2):
                await coll.insert_one({"_id": id})
            for id in (-2, 2):
                change = await next_change(stream)
                assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": id})

        for id in (-3, 3):
            await coll.insert_one({"_id": id})
        async with change_stream(stale, {"resumeAfter": change["_id"]}) as stream:
            for id in (-3, 3):
                change = await next_change(stream)
                assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": id})
