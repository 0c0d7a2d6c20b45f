"""Upstream: jstests/sharding/catalog_cache_refresh_counters.js

Operations that met a stale routing table, and those that its refresh blocked, are counted.

Differs: `operationsBlockedByRefresh` is counted by a mongos alone, of 4.4 to 6.0. What any router counts, that one
inside a mongod too, is asked besides: one stale answer, one incremental refresh.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest
from bson.max_key import MaxKey

from jstests_port.mongo import Document, Mongo
from jstests_port.raw_connection import RawConnection, raw_connection
from jstests_port.sharding_test import ShardingTest
from jstests_port.unseen import move_range_unseen, routing_node

pytestmark = pytest.mark.needs_server("6.0", "moveRange, and a router inside its mongods")

Counted = Mapping[str, int]
BLOCKED: Mapping[str, tuple[Document, Counted]] = {
    "insert": (
        {"insert": "foo", "documents": [{"x": 250}]},
        {"countAllOperations": 2, "countInserts": 1, "countCommands": 1},
    ),
    "find": ({"find": "foo", "filter": {"x": 250}}, {"countAllOperations": 1, "countQueries": 1}),
    "update": (
        {"update": "foo", "updates": [{"q": {"x": 250}, "u": {"$set": {"a": 1}}}]},
        {"countAllOperations": 2, "countUpdates": 1, "countCommands": 1},
    ),
    "delete": (
        {"delete": "foo", "deletes": [{"q": {"x": 250}, "limit": 1}]},
        {"countAllOperations": 2, "countDeletes": 1, "countCommands": 1},
    ),
    "createIndexes": (
        {"createIndexes": "foo", "indexes": [{"key": {"a": 1}, "name": "index"}]},
        {"countAllOperations": 1, "countCommands": 1},
    ),
}
"""The command, and by how much each count of blocked operations rises (upstream's figures)."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A router that does not know of the last move: chunks from 0 on went to the other shard."""

    router: RawConnection
    routing: Mongo

    async def counted(self) -> Document:
        statistics: Document = (await self.routing.admin.command("serverStatus"))["shardingStatistics"]["catalogCache"]
        return statistics


@pytest.fixture
async def stale(st: ShardingTest, test_name: str) -> AsyncIterator[Stale]:
    collection = st.s[test_name].foo
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"x": 1})
    await st.s.admin.command("split", collection.full_name, middle={"x": 0})
    await st.move_chunk(collection, {"x": 100}, st.rs1.name, wait_for_delete=True)
    await collection.insert_many([{"x": -250}, {"x": 250}])
    async with routing_node(st) as routing, raw_connection(st.s.host) as router:
        assert len((await router.run_command(test_name, {"find": "foo"}))["cursor"]["firstBatch"]) == 2
        await move_range_unseen(st, collection.full_name, st.rs0.name, {"x": 0}, {"x": MaxKey()})
        yield Stale(router, routing)


@pytest.mark.parametrize("kind", ["insert", "find", "update", "delete"])
async def test_a_stale_answer_and_the_refresh_after_it_are_counted_once(
    stale: Stale, test_name: str, kind: str
) -> None:
    command, _ = BLOCKED[kind]
    before = await stale.counted()

    reply = await stale.router.run_command(test_name, command)
    after = await stale.counted()

    assert (reply["ok"], reply.get("writeErrors")) == (1, None)
    assert {name: after[name] - before[name] for name in REFRESHED} == REFRESHED


REFRESHED: Counted = {
    "countStaleConfigErrors": 1,
    "countIncrementalRefreshesStarted": 1,
    "countFullRefreshesStarted": 0,
    "countFailedRefreshes": 0,
}


@pytest.mark.needs_mongos
@pytest.mark.parametrize("kind", BLOCKED)
async def test_an_operation_that_a_refresh_blocked_is_counted_by_its_kind(
    stale: Stale, test_name: str, kind: str
) -> None:
    command, counted = BLOCKED[kind]
    before = (await stale.counted()).get("operationsBlockedByRefresh")
    if before is None:
        pytest.skip("needs a mongos of 4.4 to 6.0: this one counts no operationsBlockedByRefresh")

    await stale.router.run_command(test_name, command)
    after = (await stale.counted())["operationsBlockedByRefresh"]

    assert {name: after[name] - before[name] for name in counted} == counted
