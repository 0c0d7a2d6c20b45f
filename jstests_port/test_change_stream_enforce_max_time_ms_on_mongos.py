"""Upstream: jstests/sharding/query/change_streams/change_stream_enforce_max_time_ms_on_mongos.js

The router waits as long as the client's maxTimeMS says, and tells the shards at most one second, so that an idle one
says again and again how far it is, for which the events of the others wait.

Differs: the cluster has a third shard, idle all the time. The stand-in shows what the stand-in does.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jstests_port.assertions import assert_soon, profiled, start_profiler
from jstests_port.change_streams import Collection
from jstests_port.mongo import Document
from jstests_port.sharding_test import ShardingTest

QUARTER, HALF, ONE, FIVE = 250, 500, 1000, 5000
"""Milliseconds."""
FIVE_MINUTES = 60 * FIVE
THIRTY_MINUTES = 6 * FIVE_MINUTES


async def test_the_router_keeps_to_the_clients_max_time_and_gives_the_shards_a_second_at_most(
    st: ShardingTest, test_name: str
) -> None:
    coll = st.s[test_name][test_name]
    await st.shard_coll(coll, {"_id": 1}, {"_id": 0}, {"_id": 1})
    databases = [shard[test_name] for shard in (st.shard0, st.shard1)]
    await start_profiler(*databases)

    async def all_have(comment: str, max_time: int) -> bool:
        """Each shard had a getMore of that stream with that maxTimeMS; it is written down when it ends."""
        query = {**_get_mores(coll, comment), "command.maxTimeMS": max_time}
        return all([await profiled(database, query) for database in databases])

    async with _opened(coll, "no time") as get_more:
        await get_more()
        await assert_soon(lambda: all_have("no time", ONE), "without maxTimeMS the shards are told one second")

    async with _opened(coll, "five seconds") as get_more:
        begin = time.monotonic()
        await get_more(maxTimeMS=FIVE)
        assert time.monotonic() - begin >= (FIVE - HALF) / 1000
        for database in databases:
            entries = await profiled(database, _get_mores(coll, "five seconds"))
            assert {one["command"]["maxTimeMS"] for one in entries} == {ONE}

    async with _opened(coll, "half a second") as get_more:
        await get_more(maxTimeMS=HALF)
        await assert_soon(lambda: all_have("half a second", HALF), "less than a second goes to the shards as it is")

    async with _opened(coll, "thirty minutes") as get_more:
        await coll.insert_one({"_id": -1})
        begin = time.monotonic()
        batch = await get_more(maxTimeMS=THIRTY_MINUTES)
        assert time.monotonic() - begin <= FIVE_MINUTES / 1000
        assert batch[0]["fullDocument"] == {"_id": -1}

    async with _opened(coll, "a quarter later") as get_more:
        await get_more()

        async def told() -> bool:
            await get_more(maxTimeMS=QUARTER)
            return await all_have("a quarter later", QUARTER)

        await assert_soon(told, "the shards are told what the client begins to say")


def _get_mores(coll: Collection, comment: str) -> Document:
    return {"op": "getmore", "ns": coll.full_name, "originatingCommand.comment": comment}


@asynccontextmanager
async def _opened(coll: Collection, comment: str) -> AsyncIterator[Any]:
    """A stream whose first batch was asked to be empty, so that the first getMore goes to the shards; gives getMore."""
    async with coll.database.client.start_session() as session:

        async def say(command: Document) -> Document:
            reply: Document = await coll.database.command(command, session=session)
            return reply

        opening = {"pipeline": [{"$changeStream": {}}], "comment": comment, "cursor": {"batchSize": 0}}
        opened = (await say({"aggregate": coll.name, **opening}))["cursor"]
        assert opened["firstBatch"] == [] and opened["id"] != 0

        async def get_more(**options: int) -> list[Document]:
            reply = await say({"getMore": opened["id"], "collection": coll.name, **options})
            batch: list[Document] = reply["cursor"]["nextBatch"]
            return batch

        try:
            yield get_more
        finally:
            await say({"killCursors": coll.name, "cursors": [opened["id"]]})
