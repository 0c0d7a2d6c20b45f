"""Upstream: jstests/sharding/sharding_statistics_server_status.js

What a shard counts of its migrations: begun, received, documents copied and deleted; and given up, for want of a lock
or because of an index operation.

Differs: compared are the counts before and after, as the cluster is shared. Upstream's transaction comes through a
mongos; here it is the shard's own client's, which holds the same lock and which a stand-in router would refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pymongo.asynchronous.collection import AsyncCollection

from jstests_port.assertions import assert_soon
from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import ParallelShell, parallel_shell
from jstests_port.raw_connection import raw_connection
from jstests_port.sharding_test import ShardingTest

pytestmark = pytest.mark.needs_server("6.0", "these counters under these names")

STARTED: Final = "countDonorMoveChunkStarted"
RECEIVED: Final = "countRecipientMoveChunkStarted"
CLONED: Final = "countDocsClonedOnDonor"
COPIED: Final = "countDocsClonedOnRecipient"
DELETED: Final = "countDocsDeletedOnDonor"
DELETED_LATER: Final = "countDocsDeletedByRangeDeleter"
"""The same under the name that it has on 6.0.27."""
LOCK_TIMEOUT: Final = "countDonorMoveChunkLockTimeout"
INDEX_CONFLICT: Final = "countDonorMoveChunkAbortConflictingIndexOperation"
THERE: Final = (
    "countStaleConfigErrors",
    "totalCriticalSectionCommitTimeMillis",
    "totalCriticalSectionTimeMillis",
    "totalDonorChunkCloneTimeMillis",
)
LOCK_WAIT_MS: Final = 1000
"""Of a migration; upstream has 2 s, the server's default is half a minute and more."""

STARTED_MOVE, STEADY_STATE, DATA_COMMITTED = 2, 4, 5
"""Steps of a migration at which its donor can be made to wait."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """A collection below and from `_id` 0 on two chunks of the first shard; the upper one moves."""

    st: ShardingTest
    collection: AsyncCollection[Document]
    donor: Mongo

    async def move(self, to: str) -> Document:
        """The upper chunk's, again where the last one is not yet over; the reply, failed or not."""
        command = {"moveChunk": self.collection.full_name, "find": {"_id": 1}, "to": to, "_waitForDelete": True}
        async with raw_connection(self.st.s.host) as router:
            while True:
                reply = await router.run_command("admin", command, deadline=60)
                if reply.get("code") != ErrorCodes.ConflictingOperationInProgress:
                    return reply
                await asyncio.sleep(0.1)  # the recipient tells nobody when it has given the last one up

    @asynccontextmanager
    async def moving(self, step: int) -> AsyncIterator[ParallelShell[Document]]:
        """A move to the second shard, which waits at that step while the block runs, and then goes on."""
        held = await configure_fail_point(self.donor, f"moveChunkHangAtStep{step}")
        async with held, parallel_shell(self.move(self.st.rs1.name), "moveChunk") as move:
            await held.wait()
            yield move
            await held.off()

    async def counted(self) -> Document:
        return await statistics(self.donor)


@pytest.fixture
async def chunks(st: ShardingTest, test_name: str) -> Chunks:
    collection = st.s[test_name].coll
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"_id": 1})
    await st.s.admin.command("split", collection.full_name, middle={"_id": 0})
    return Chunks(st, collection, await st.rs0.get_primary())


async def statistics(node: Mongo) -> Document:
    found: Document = (await node.admin.command("serverStatus"))["shardingStatistics"]
    return found


async def test_donor_and_recipient_count_their_moves_and_documents(chunks: Chunks) -> None:
    nodes = [chunks.donor, await chunks.st.rs1.get_primary()]
    first = [await statistics(node) for node in nodes]
    deleted = DELETED if DELETED in first[0] else DELETED_LATER
    names = (STARTED, RECEIVED, CLONED, COPIED, deleted)
    expected = [dict.fromkeys(names, 0) for _ in nodes]

    for documents, giver in ((0, 0), (3, 1), (0, 0), (0, 1)):
        if documents:
            await chunks.collection.insert_many([{"_id": number} for number in range(documents)])
        held = await chunks.collection.count_documents({})
        taker = 1 - giver
        assert (await chunks.move(chunks.st.rs[taker].name))["ok"] == 1
        expected[giver] = added(expected[giver], {STARTED: 1, CLONED: held, deleted: held})
        expected[taker] = added(expected[taker], {RECEIVED: 1, COPIED: held})
        counted = [await statistics(node) for node in nodes]
        assert [{name: now[name] - then[name] for name in names} for now, then in zip(counted, first, strict=True)] == (
            expected
        )
        assert all(name in one for name in THERE for one in counted)


@pytest.fixture
async def short_lock_wait(chunks: Chunks) -> AsyncIterator[None]:
    name = "migrationLockAcquisitionMaxWaitMS"
    before = (await chunks.donor.admin.command({"getParameter": 1, name: 1}))[name]
    await chunks.donor.admin.command({"setParameter": 1, name: LOCK_WAIT_MS})
    try:
        yield
    finally:
        await chunks.donor.admin.command({"setParameter": 1, name: before})


async def test_a_move_that_gets_no_lock_for_its_critical_section_is_counted(
    chunks: Chunks, short_lock_wait: None
) -> None:
    """The lock is held by a transaction that has written to the collection."""
    before = await chunks.counted()
    async with chunks.donor.start_session() as session:
        async with chunks.moving(STEADY_STATE) as move:
            await session.start_transaction()
            own = chunks.donor[chunks.collection.database.name].coll
            await own.insert_one({"_id": 5}, session=session)
        reply = await move.join()
        await session.abort_transaction()

    assert (reply["ok"], reply.get("code")) == (0, ErrorCodes.LockTimeout)
    assert rise(before, await chunks.counted(), LOCK_TIMEOUT) == 1


async def test_a_move_that_gets_no_lock_for_its_commit_is_counted(chunks: Chunks, short_lock_wait: None) -> None:
    """The lock is held by a command that sleeps with it until it is killed."""
    before = await chunks.counted()
    comment = f"Lock sleep of {chunks.collection.full_name}"
    sleep = {"sleep": 1, "secs": 3600, "lockTarget": chunks.collection.full_name, "lock": "ir", "$comment": comment}
    async with raw_connection(chunks.donor.host) as own:
        try:
            async with chunks.moving(DATA_COMMITTED) as move:
                sleeping = asyncio.create_task(own.run_command("admin", sleep, deadline=60))
                await assert_soon(lambda: ops_of(chunks.donor, comment), "the command sleeps")
            reply = await move.join()
        finally:
            for op in await ops_of(chunks.donor, comment):
                await chunks.donor.admin.command("killOp", 1, op=op["opid"])
        killed = await sleeping

    assert killed["code"] == ErrorCodes.Interrupted
    assert (reply["ok"], reply.get("code")) == (0, ErrorCodes.LockTimeout)
    assert rise(before, await chunks.counted(), LOCK_TIMEOUT) == 1


@pytest.mark.parametrize("step", [STARTED_MOVE, STEADY_STATE])
async def test_a_move_that_an_index_operation_ends_is_counted(chunks: Chunks, step: int) -> None:
    # An index of an empty collection is there at once, and ends no migration (6.0.5).
    await chunks.collection.insert_many([{"_id": number} for number in range(3)])
    before = await chunks.counted()

    async with chunks.moving(step) as move:
        await chunks.collection.create_index([("x", 1)])
    reply = await move.join()

    assert (reply["ok"], reply.get("code")) == (0, ErrorCodes.Interrupted)
    assert rise(before, await chunks.counted(), INDEX_CONFLICT) == 1


def added(counts: Mapping[str, int], changes: Mapping[str, int]) -> dict[str, int]:
    return {name: count + changes.get(name, 0) for name, count in counts.items()}


def rise(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> int:
    return int(after[name] - before[name])


async def ops_of(node: Mongo, comment: str) -> list[Document]:
    ops = await node.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.$comment": comment}}])
    return await ops.to_list()
