"""Upstream: jstests/sharding/query/change_streams/change_stream_read_preference.js

A stream and its update lookups run where the client's read preference says.

Differs: the shards have two secondaries each, so that a stream and its lookup may be on different ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pymongo import ReadPreference
from pymongo.read_preferences import _ServerMode as AnyReadPreference

from jstests_port.assertions import profiled, start_profiler
from jstests_port.change_streams import change_stream, next_changes
from jstests_port.mongo import Document, Mongo
from jstests_port.post_image_lookups import lookups
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.sharding_test import ShardingTest


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
@pytest.mark.parametrize("preference", [ReadPreference.PRIMARY, ReadPreference.SECONDARY], ids=["primary", "secondary"])
async def test_a_stream_and_its_lookups_run_where_the_read_preference_says(
    replicated: ShardingTest, test_name: str, preference: AnyReadPreference
) -> None:
    st = replicated
    coll = st.s[test_name][test_name]
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1}, wait_for_delete=True)
    await coll.insert_many([{"_id": -1}, {"_id": 1}])
    for shard in (st.rs0, st.rs1):
        await start_profiler(*(node[test_name] for node in shard.nodes))

    comment = f"change stream against {preference.name}"
    preferring = coll.with_options(read_preference=preference)
    async with change_stream(preferring, {"fullDocument": "updateLookup"}, comment=comment) as stream:
        for id in (-1, 1):
            await coll.update_one({"_id": id}, {"$set": {"updated": True}})
        for shard in (st.rs0, st.rs1):
            await shard.await_last_op_committed()
        changes = await next_changes(stream, 2)
        assert [one["fullDocument"] for one in changes] == [{"_id": -1, "updated": True}, {"_id": 1, "updated": True}]

    of_the_stream = {"originatingCommand.comment": comment}
    for shard, id in ((st.rs0, -1), (st.rs1, 1)):
        meant, others = await _meant(shard, preference)
        assert await _entries(meant, test_name, of_the_stream) >= 1
        assert await _entries(meant, test_name, lookups(coll, comment, id)) == 1
        for query in (of_the_stream, lookups(coll, comment)):
            assert await _entries(others, test_name, query) == 0


async def _meant(shard: ReplSetTest, preference: AnyReadPreference) -> tuple[list[Mongo], list[Mongo]]:
    """Whom the preference allows, and the others."""
    primary = await shard.get_primary()
    secondaries = [node for node in shard.nodes if node is not primary]
    return ([primary], secondaries) if preference == ReadPreference.PRIMARY else (secondaries, [primary])


async def _entries(nodes: Sequence[Mongo], database: str, query: Document) -> int:
    return sum([len(await profiled(node[database], query)) for node in nodes])
