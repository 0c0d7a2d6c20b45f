"""Upstream: jstests/sharding/query/change_streams/resume_change_stream.js

A stream resumes after a token of either shard, as long as every shard's oplog reaches back that far; and from the
middle of an update of many, whose events have the same time.

Differs: checkpoints every second, for what is newer than the last one stays in the oplog.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo import InsertOne
from pymongo.collation import Collation
from pymongo.write_concern import WriteConcern

from clusters.topology import Settings
from jstests_port.assertions import assert_command_failed_with_code, assert_soon
from jstests_port.change_streams import Watched, WatchMode, change_stream, next_change, watched
from jstests_port.mongo import Mongo
from jstests_port.sharding_test import ShardingTest

OPLOG_MB = 1
HISTORY_LOST = 286
DOCUMENTS = 100
CASE_INSENSITIVE = Collation(locale="en_US", strength=2)


@pytest.fixture(scope="module")
async def forgetful() -> AsyncIterator[ShardingTest]:
    """Two shards with a short memory."""
    settings = Settings(oplog_mb=OPLOG_MB, parameters={"syncdelay": "1"})
    async with ShardingTest(2, 1, settings=settings) as st:
        yield st


@pytest.mark.parametrize("mode", [WatchMode.COLLECTION, WatchMode.DATABASE])
async def test_a_stream_resumes_from_tokens_of_either_shard_until_one_oplog_has_lost_the_time(
    forgetful: ShardingTest, mode: WatchMode
) -> None:
    st = forgetful
    coll = st.s[f"resume_{mode}"].get_collection("resume", write_concern=WriteConcern("majority"))
    on, _ = watched(mode, coll)
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
    await coll.insert_many([{"_id": -1}, {"_id": 1}])

    async with change_stream(on) as stream:
        await coll.update_one({"_id": -1}, {"$set": {"updated": True}})
        time_of_first = (await st.s.admin.command("hello"))["$clusterTime"]["clusterTime"]
        await coll.update_one({"_id": 1}, {"$set": {"updated": True}})
        tokens = []
        for id in (-1, 1):
            change = await next_change(stream)
            assert (change["operationType"], change["documentKey"]) == ("update", {"_id": id})
            tokens.append(change["_id"])
    of_shard0, of_shard1 = tokens

    await coll.insert_one({"_id": -2})
    await coll.insert_one({"_id": 2})
    async with change_stream(on, {"resumeAfter": of_shard0}) as stream:
        assert [(await next_change(stream))["documentKey"]["_id"] for _ in range(3)] == [1, -2, 2]

    async def fill() -> None:
        await coll.insert_one({"long": "abcdefghi" * 4096 * OPLOG_MB, "_id": next(ids)})

    ids = iter(range(100, 100_000))
    await _roll_over(st.shard1, fill)
    # Shard 0 still has the first of these tokens; shard 1 does not know what it had at that time.
    for spec in ({"resumeAfter": of_shard1}, {"startAtOperationTime": time_of_first}, {"resumeAfter": of_shard0}):
        await assert_command_failed_with_code(_first_change(on, spec), HISTORY_LOST)


@pytest.mark.parametrize("mode", [WatchMode.COLLECTION, WatchMode.DATABASE])
async def test_a_stream_resumes_within_events_of_one_time(st: ShardingTest, test_name: str, mode: WatchMode) -> None:
    coll = st.s[test_name].get_collection(test_name, write_concern=WriteConcern("majority"))
    on, _ = watched(mode, coll)
    await st.shard_coll(coll, {"shardKey": 1}, {"shardKey": 50}, {"shardKey": 51})
    cases = ("abcd", "Abcd", "aBcd", "abCd", "abcD")
    await coll.bulk_write([InsertOne({"_id": f"{cases[n % 5]}{n // 5}", "shardKey": n}) for n in range(DOCUMENTS)])
    async with change_stream(on) as stream:
        await coll.update_many({}, {"$set": {"updated": True}})
        changes = [await next_change(stream) for _ in range(DOCUMENTS)]
    for change, following in pairwise(changes):
        async with change_stream(on, {"resumeAfter": change["_id"]}, collation=CASE_INSENSITIVE) as resumed:
            assert await next_change(resumed) == following


async def _first_change(on: Watched, spec: Mapping[str, Any]) -> None:
    async with change_stream(on, spec) as stream:
        await next_change(stream)


async def _roll_over(shard: Mongo, fill: Any) -> None:
    """Fill its oplog until what is the newest entry now is older than the oldest."""
    oplog = shard.local["oplog.rs"]

    async def end(direction: int) -> Timestamp:
        (entry,) = await oplog.find({}, {"ts": 1}).sort("$natural", direction).limit(1).to_list()
        timestamp: Timestamp = entry["ts"]
        return timestamp

    newest = await end(-1)

    async def rolled_over() -> bool:
        await fill()
        return await end(1) > newest

    await assert_soon(rolled_over, f"the oplog of {shard.name} has rolled over", timeout=60)
