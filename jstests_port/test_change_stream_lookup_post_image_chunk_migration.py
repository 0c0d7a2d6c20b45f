"""Upstream: jstests/sharding/query/change_streams/change_stream_lookup_post_image_chunk_migration.js

The post-image of an update is looked up at the shard that has the document by now, when it has moved since: to another
shard after the collection was sharded, and to one that was added only then.

Differs: nothing but the words.
"""

from __future__ import annotations

from typing import Any

import pytest

from jstests_port.assertions import profiler_has_single_matching_entry, start_profiler
from jstests_port.change_streams import Collection, change_stream, next_change
from jstests_port.mongo import Mongo
from jstests_port.post_image_lookups import lookups
from jstests_port.sharding_test import ShardingTest, new_shard


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
async def test_a_post_image_is_looked_up_at_the_shard_that_has_the_document_by_now(test_name: str) -> None:
    async with new_shard("shard3") as late, ShardingTest(3, 1) as st:
        await st.enable_sharding(test_name, st.rs0.name)
        coll = st.s[test_name][test_name]
        shards = [st.shard0, st.shard1, st.shard2]

        async with change_stream(coll, {"fullDocument": "updateLookup"}) as before_sharding:
            for id in range(4):
                await coll.insert_one({"_id": id})
                change = await next_change(before_sharding)
                assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": id})
        token = change["_id"]

        for id in (0, 2):
            await coll.update_one({"_id": id}, {"$set": {"updated": True}})
        await start_profiler(*(shard[test_name] for shard in shards))
        await st.s.admin.command("shardCollection", coll.full_name, key={"_id": 1})
        await st.s.admin.command("split", coll.full_name, middle={"_id": 2})
        await st.move_chunk(coll, {"_id": 0}, st.rs1.name, wait_for_delete=True)
        await st.move_chunk(coll, {"_id": 2}, st.rs2.name, wait_for_delete=True)
        await _updates(coll, token, "change stream after sharding", [(0, st.shard1), (2, st.shard2)])

        for id in (1, 3):
            await coll.update_one({"_id": id}, {"$set": {"updated": True}})
        await st.s.admin.command("addShard", late.get_url(), name=late.name)
        (added,) = late.nodes
        await start_profiler(*(shard[test_name] for shard in (*shards, added)))
        await st.move_chunk(coll, {"_id": 0}, st.rs2.name, wait_for_delete=True)
        await st.move_chunk(coll, {"_id": 2}, late.name, wait_for_delete=True)
        owners = [(0, st.shard2), (2, added), (1, st.shard2), (3, added)]
        await _updates(coll, token, "change stream after addShard", owners)


async def _updates(coll: Collection, token: Any, comment: str, owners: list[tuple[int, Mongo]]) -> None:
    """A stream from the token has these updates, each looked up once, at its owner."""
    spec = {"resumeAfter": token, "fullDocument": "updateLookup"}
    async with change_stream(coll, spec, comment=comment) as stream:
        for id, owner in owners:
            change = await next_change(stream)
            assert (change["operationType"], change["fullDocument"]) == ("update", {"_id": id, "updated": True})
            await profiler_has_single_matching_entry(owner[coll.database.name], lookups(coll, comment, id))
