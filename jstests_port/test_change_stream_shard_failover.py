"""Upstream: jstests/sharding/query/change_streams/change_stream_shard_failover.js

A stream goes on when the primary that it runs on steps down, and one that is resumed from a token of before has the
same events in the same order.

Differs: the shards have three members, not two.
"""

from __future__ import annotations

import pytest
from pymongo import InsertOne
from pymongo.write_concern import WriteConcern

from jstests_port.change_streams import WatchMode, change_stream, next_change, next_changes, watched
from jstests_port.sharding_test import ShardingTest

DOCUMENTS = 100


@pytest.mark.parametrize("mode", list(WatchMode))
async def test_a_stream_survives_a_failover_and_resumes_with_the_same_events_in_the_same_order(
    replicated: ShardingTest, test_name: str, mode: WatchMode
) -> None:
    st = replicated
    coll = st.s[test_name].get_collection("change_stream_failover", write_concern=WriteConcern("majority"))
    half = DOCUMENTS // 2
    await st.shard_coll(coll, {"_id": 1}, {"_id": half}, {"_id": half + 1})
    on, spec = watched(mode, coll)
    async with change_stream(on, spec) as stream:
        # Those of the two shards in turn, so that some may have the same time.
        await coll.bulk_write([InsertOne({"_id": id + at}) for id in range(half) for at in (0, half)], ordered=False)
        first = await next_change(stream)

        old = await st.rs0.get_primary()
        await old.admin.command("replSetStepDown", 300, force=True)
        try:
            assert await st.rs0.await_nodes_agree_on_primary() is not old
            changes = [first, *await next_changes(stream, DOCUMENTS - 1)]
            for change in changes:
                assert change["ns"] == {"db": test_name, "coll": coll.name}
                assert change["operationType"] == "insert"
            assert {one["fullDocument"]["_id"] for one in changes} == set(range(DOCUMENTS))
            async with change_stream(on, {**spec, "resumeAfter": first["_id"]}) as resumed:
                assert await next_changes(resumed, DOCUMENTS - 1) == changes[1:]
        finally:
            await old.admin.command("replSetFreeze", 0)
