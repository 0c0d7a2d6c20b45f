"""Upstream: jstests/sharding/query/change_streams/change_streams_shards_start_in_sync.js

A stream begins at one time on all shards, although its cursors are not opened at one time (SERVER-31685): what is
written to shard 1 before its cursor is there comes too, between what shard 0 had before and after.

Differs: not a bridge keeps a second router from shard 1, but a fail point holds the opening of that one cursor; there
is one router.
"""

from __future__ import annotations

from jstests_port.assertions import assert_soon
from jstests_port.change_streams import Collection, assert_next_changes_equal, change_stream
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import parallel_shell
from jstests_port.sharding_test import ShardingTest

HELD_MS = 3000
"""For how long the cursor of shard 1 is not opened."""


async def test_what_a_shard_got_before_its_cursor_was_opened_is_in_the_stream(st: ShardingTest, test_name: str) -> None:
    coll = st.s[test_name][test_name]
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
    held = {"failCommands": ["aggregate"], "namespace": coll.full_name, "failInternalCommands": True}
    blocked = {**held, "blockConnection": True, "blockTimeMS": HELD_MS}
    async with (
        await configure_fail_point(st.shard1, "failCommand", blocked, {"times": 1}) as opening,
        parallel_shell(_check_stream(coll, test_name), "check stream"),
    ):
        await opening.wait()
        await _shard_cursor(st.shard0, test_name)
        await coll.insert_one({"_id": -1000})
        await coll.insert_one({"_id": 1001})
        assert await _cursors(st.shard1, test_name) == []
        await _shard_cursor(st.shard1, test_name)
        await coll.insert_one({"_id": -1002})


async def _check_stream(coll: Collection, comment: str) -> None:
    expected: list[Document] = [
        {
            "operationType": "insert",
            "ns": {"db": coll.database.name, "coll": coll.name},
            "documentKey": {"_id": id},
            "fullDocument": {"_id": id},
        }
        for id in (-1000, 1001, -1002)
    ]
    async with change_stream(coll, comment=comment) as stream:
        await assert_next_changes_equal(stream, expected)


async def _shard_cursor(shard: Mongo, comment: str) -> None:
    async def there() -> bool:
        return len(await _cursors(shard, comment)) == 1

    await assert_soon(there, f"the stream has its cursor on {shard.name}")


async def _cursors(shard: Mongo, comment: str) -> list[Document]:
    """Those of the stream, at work or idle."""
    pipeline: list[Document] = [
        {"$currentOp": {"idleCursors": True}},
        {"$match": {"cursor.originatingCommand.comment": comment}},
    ]
    return [one async for one in await shard.admin.aggregate(pipeline)]
