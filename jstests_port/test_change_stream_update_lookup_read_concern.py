"""Upstream: jstests/sharding/query/change_streams/change_stream_update_lookup_read_concern.js

The post-image that an update lookup finds is at least as recent as the change it is looked up for, and committed by a
majority; also where the lookup goes to a member that lags behind.

Differs: the set is a shard from the start, and not the only one; behind a stand-in router the shards look up, so that
the view of the member that runs the stream counts, as from 8.0 on.
"""

from __future__ import annotations

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.read_preferences import Nearest
from pymongo.write_concern import WriteConcern

from jstests_port.assertions import (
    assert_soon,
    profiler_has_at_least_one_matching_entry,
    profiler_has_single_matching_entry,
    profiler_has_zero_matching_entries,
    start_profiler,
)
from jstests_port.change_streams import change_stream, next_change
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import parallel_shell
from jstests_port.post_image_lookups import lookups
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.sharding_test import ShardingTest

CLOSEST, FARTHER = {"tag": "closestSecondary"}, {"tag": "fartherSecondary"}


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
async def test_a_lookup_on_a_lagging_member_waits_for_the_change_it_is_for(
    replicated: ShardingTest, test_name: str
) -> None:
    st, rst = replicated, replicated.rs0
    await st.enable_sharding(test_name, rst.name)
    coll = st.s[test_name].get_collection(test_name, write_concern=WriteConcern(1))
    await st.s.admin.command("shardCollection", coll.full_name, key={"_id": 1})
    await coll.insert_one({"_id": 1})
    await rst.await_replication()

    primary = await rst.get_primary()
    closest, farther = await rst.get_secondaries()
    tags = {primary: {"tag": "primary"}, closest: CLOSEST, farther: FARTHER}
    # A stream runs on every shard, so that the tag must name somebody on the other one too.
    async with rst.tagged([tags[node] for node in rst.nodes]), st.rs1.tagged([CLOSEST, CLOSEST, CLOSEST]):
        near = coll.with_options(read_preference=Nearest([CLOSEST]))
        closest_db = closest[test_name]
        await start_profiler(closest_db)
        await _reads_go_to(closest, coll.full_name, near)

        comment = "change stream against closestSecondary"
        async with change_stream(near, {"fullDocument": "updateLookup"}, comment=comment) as stream:
            await coll.update_one({"_id": 1}, {"$set": {"updatedCount": 1}})
            change = await next_change(stream)
            assert change["operationType"] == "update"
            assert change["fullDocument"] == {"_id": 1, "updatedCount": 1}
            await profiler_has_at_least_one_matching_entry(closest_db, {"originatingCommand.comment": comment})
            await profiler_has_single_matching_entry(closest_db, lookups(coll, comment, id=1))

            # From now on lookups go to another member than the stream.
            moved = {closest.name: FARTHER, farther.name: CLOSEST}
            await rst.set_tags(moved)
            await rst.await_rs_client_hosts(st.s, moved)
            lagging_db = farther[test_name]
            await start_profiler(lagging_db)
            await profiler_has_zero_matching_entries(lagging_db, {})
            await _reads_go_to(farther, coll.full_name, near)

            await rst.stop_server_replication(farther)
            try:
                await coll.update_one({"_id": 1}, {"$set": {"updatedCount": 2}})
                async with parallel_shell(_restart_when_looked_up(rst, farther, comment), "restart"):
                    change = await next_change(stream)
            finally:
                await rst.restart_server_replication(farther)
            assert change["operationType"] == "update"
            assert change["fullDocument"] == {"_id": 1, "updatedCount": 2}
            await profiler_has_single_matching_entry(lagging_db, lookups(coll, comment))


async def _reads_go_to(node: Mongo, namespace: str, near: AsyncCollection[Document]) -> None:
    """A read by the tag goes to that member, as its profiler says."""
    assert len(await near.find(comment="testing targeting").to_list()) == 1
    database = node[namespace.partition(".")[0]]
    await profiler_has_single_matching_entry(database, {"ns": namespace, "command.comment": "testing targeting"})


async def _restart_when_looked_up(rst: ReplSetTest, lagging: Mongo, comment: str) -> None:
    """The lookup waits on the lagging member: it is in its currentOp, and the test waits for its event meanwhile."""

    async def looked_up() -> bool:
        return len(await _waiting(lagging, comment)) == 1

    await assert_soon(looked_up, "the lookup is in currentOp of the lagging member")
    await rst.restart_server_replication(lagging)


async def _waiting(node: Mongo, comment: str) -> list[Document]:
    pipeline: list[Document] = [{"$currentOp": {}}, {"$match": {"op": "command", "command.comment": comment}}]
    return [one async for one in await node.admin.aggregate(pipeline)]
