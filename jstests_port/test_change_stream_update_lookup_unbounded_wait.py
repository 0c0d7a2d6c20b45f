"""Upstream: jstests/sharding/query/change_streams/change_stream_update_lookup_unbounded_wait.js, which is attached to
SERVER-136788 and not public: written from what the ticket says of it.

A stream is pinned to one secondary by a tag; the tag moves, so that its lookups go to another one; that one's
replication is paused, so that what a lookup has to wait for never comes. The lookup waits without a bound: maxTimeMS
does not end its getMore, there is no event and no error, until the replication goes on.

Differs: waits for 30 s, and then names the hanging getMore. On a server whose lookups are local nothing hangs, and this
fails and says so: there it is a defect that no longer shows.
"""

from __future__ import annotations

import asyncio
import time

import pytest
from pymongo.read_preferences import Secondary

from harness.injected import injected
from harness.lookups import lookup_path
from jstests_port.change_streams import change_stream, next_change
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import ParallelShell, parallel_shell
from jstests_port.sharding_test import ShardingTest

HANGS_FOR = 30.0
"""Seconds for which there is neither event nor error."""
MAX_TIME_MS = 1000
TAG = {"tag": "lookups"}


async def test_a_lookup_on_a_member_that_cannot_serve_it_hangs_past_max_time_without_an_error(
    replicated: ShardingTest, test_name: str
) -> None:
    st, rst = replicated, replicated.rs0
    await st.enable_sharding(test_name, rst.name)
    coll = st.s[test_name][test_name]
    await st.s.admin.command("shardCollection", coll.full_name, key={"_id": 1})
    await coll.insert_one({"_id": 1, "seq": 0})
    await rst.await_replication()

    primary = await rst.get_primary()
    a, b = await rst.get_secondaries()
    # A stream runs on every shard, so that the tag must name somebody on the other one too.
    async with rst.tagged([TAG if node is a else {} for node in rst.nodes]), st.rs1.tagged([TAG, TAG, TAG]):
        pinned = coll.with_options(read_preference=Secondary([TAG]))
        comment = "unbounded wait"
        spec = {"fullDocument": "updateLookup"}
        async with change_stream(pinned, spec, await_ms=MAX_TIME_MS, comment=comment) as stream:
            await coll.update_one({"_id": 1}, {"$set": {"seq": 1}})
            assert (await next_change(stream))["fullDocument"] == {"_id": 1, "seq": 1}

            await rst.set_tags({a.name: {}, b.name: TAG})
            async with parallel_shell(next_change(stream, timeout=3 * HANGS_FOR), "next change") as reader:
                async with injected(st.cluster, "pause-replication", b.name):
                    await coll.update_one({"_id": 1}, {"$set": {"seq": 2}})
                    await _no_event_and_no_error(st, reader)
                    hanging = await _get_mores(a if _shards_look_up(st) else st.s, comment)
                    assert [one["command"]["maxTimeMS"] <= MAX_TIME_MS for one in hanging] == [True], hanging
                    assert hanging[0]["secs_running"] >= HANGS_FOR - 2
                # The replication goes on, and so does the stream.
                assert (await reader.join())["fullDocument"] == {"_id": 1, "seq": 2}
            await coll.update_one({"_id": 1}, {"$set": {"seq": 3}})
            assert (await next_change(stream))["fullDocument"] == {"_id": 1, "seq": 3}
    assert await rst.get_primary() is primary


async def _no_event_and_no_error(st: ShardingTest, reader: ParallelShell[Document]) -> None:
    """For as long as it is to hang; fails with a named reason where something came."""
    begin = time.monotonic()
    while time.monotonic() < begin + HANGS_FOR:
        if reader.done():
            took, server = time.monotonic() - begin, st.cluster.server
            event = await reader.join()
            pytest.fail(
                f"nothing hangs on mongod {server.version}, lookups: {lookup_path(server.version, server.router)}; "
                f"{event['fullDocument']} came after {took:.1f} s, from another member than the one with the tag"
            )
        await asyncio.sleep(0.1)  # what is waited for is that nothing comes


def _shards_look_up(st: ShardingTest) -> bool:
    return "by the mongos" not in lookup_path(st.cluster.server.version, st.cluster.server.router)


async def _get_mores(node: Mongo, comment: str) -> list[Document]:
    """Running getMores of the stream with that comment."""
    local = {"localOps": True} if not node.shard_name else {}
    pipeline: list[Document] = [
        {"$currentOp": {"allUsers": True, **local}},
        {"$match": {"op": "getmore", "cursor.originatingCommand.comment": comment}},
    ]
    return [one async for one in await node.admin.aggregate(pipeline)]
