"""Upstream: jstests/sharding/query/change_streams/change_stream_chunk_migration.js

A stream goes on in order, with no event of the moves themselves, while chunks move between shards, when all of them are
on one shard, and when a shard is added and gets one.

Differs: nothing but the words.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo.write_concern import WriteConcern

from jstests_port.change_streams import Stream, assert_no_change, change_stream, next_changes
from jstests_port.sharding_test import ShardingTest, new_shard


async def test_a_stream_goes_on_in_order_while_chunks_move_and_a_shard_is_added(test_name: str) -> None:
    async with new_shard() as late, ShardingTest(2, 1) as st:
        coll = st.s[test_name].get_collection("foo", write_concern=WriteConcern("majority"))
        await st.enable_sharding(test_name, st.rs0.name)

        async def insert(*ids: int) -> None:
            for id in ids:
                await coll.insert_one({"_id": id})

        async with change_stream(coll) as stream:
            await assert_no_change(stream)
            await st.s.admin.command("shardCollection", coll.full_name, key={"_id": 1})
            await insert(0, 20)
            await st.s.admin.command("split", coll.full_name, middle={"_id": 10})
            await st.move_chunk(coll, {"_id": 20}, st.rs1.name, wait_for_delete=True)
            await _inserted(stream, (0, 20))

            await insert(1, 21)
            await st.s.admin.command("split", coll.full_name, middle={"_id": 0})
            await st.move_chunk(coll, {"_id": 5}, st.rs1.name, wait_for_delete=True)
            await insert(-2, 2, 22)
            await _inserted(stream, (1, 21, -2, 2, 22))
            await assert_no_change(stream)

            # All chunks on one shard.
            await insert(-3, 3, 23)
            await st.move_chunk(coll, {"_id": -5}, st.rs1.name, wait_for_delete=True)
            await insert(-4, 4, 24)
            await _inserted(stream, (-3, 3, 23, -4, 4, 24))

            await st.s.admin.command("addShard", late.get_url(), name=late.name)
            await insert(-5, 5, 25)
            await _inserted(stream, (-5, 5, 25))
            await insert(16)
            await st.move_chunk(coll, {"_id": 20}, late.name, wait_for_delete=True)
            await insert(-6, 6, 26)
            await _inserted(stream, (16, -6, 6, 26))
            await assert_no_change(stream)


async def _inserted(stream: Stream, ids: Sequence[int]) -> None:
    changes = await next_changes(stream, len(ids))
    assert [(one["operationType"], one["documentKey"]) for one in changes] == [("insert", {"_id": id}) for id in ids]
