"""Upstream: jstests/sharding/move_chunk_insert_with_write_retryability.js

The record of a write goes where its chunk goes: an insert is sent again after its chunk moved, after the recipient's
primary gave way to another, and after the chunk moved back. It is answered each time, and carried out once.

Differs: shards of three members; a secondary stands for election instead of the primary stepping down. The scenario is
that of upstream's move_chunk_with_session_helper.js.
"""

from __future__ import annotations

from jstests_port.raw_connection import raw_connection
from jstests_port.retryable_writes import assert_same_answer, new_lsid, numbered
from jstests_port.sharding_test import ShardingTest


async def test_an_insert_is_answered_from_its_record_wherever_its_chunk_has_gone(
    replicated: ShardingTest, test_name: str
) -> None:
    st = replicated
    collection = st.s[test_name]["insert"]
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"x": 1})
    insert = {"insert": "insert", "documents": [{"x": 10}, {"x": 30}], "ordered": False}
    sent = numbered(insert, new_lsid(), 34)
    async with raw_connection(st.s.host) as router:
        first = await router.run_command(test_name, sent)
        assert (first["ok"], first["n"]) == (1, 2)

        async def sent_again() -> None:
            again = await router.run_command(test_name, sent)
            assert_same_answer(first, again)
            assert sorted([one["x"] async for one in collection.find()]) == [10, 30]

        await st.move_chunk(collection, {"x": 0}, st.rs1.name)
        await sent_again()

        stepped_down = await st.rs1.get_primary()
        await st.rs1.step_up((await st.rs1.get_secondaries())[0])
        assert await st.rs1.get_primary() is not stepped_down
        await sent_again()

        await st.move_chunk(collection, {"x": 0}, st.rs0.name)
        await sent_again()
