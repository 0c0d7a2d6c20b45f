"""Upstream: jstests/sharding/query/change_streams/change_stream_error_label.js

An error after which a change stream may be resumed bears the label ResumableChangeStreamError, in its first command
and in a getMore; any other error, and any other cursor's, does not.

Differs: where there is no mongos, the fail point of getMore is set on a shard, and it is the stand-in that labels.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from jstests_port import servers
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document
from jstests_port.sharding_test import ShardingTest

RESUMABLE = "ResumableChangeStreamError"
FAILED_TO_PARSE, SHUTDOWN_IN_PROGRESS, FAILED_TO_SATISFY_READ_PREFERENCE = 9, 91, 133
OF_A_STOPPED_SHARD = (6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436)
"""HostUnreachable, HostNotFound, NetworkTimeout, ShutdownInProgress, PrimarySteppedDown, SocketException,
NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk,
NotPrimaryOrSecondary."""
STREAM: list[Document] = [{"$changeStream": {}}]
SORTED: list[Document] = [{"$match": {}}, {"$sort": {"_id": 1}}]


class Commands:
    """Commands on one collection through the router, in one session; replies as they come, errors too."""

    def __init__(self, st: ShardingTest, session: AsyncClientSession, database: str) -> None:
        self._database = st.s[database]
        self._session = session

    async def say(self, command: Document) -> Document:
        return await self._database.command(command, check=False, session=self._session)

    async def aggregate(self, pipeline: list[Document], **cursor: int) -> Document:
        return await self.say({"aggregate": "test", "pipeline": pipeline, "cursor": cursor})

    async def get_more(self, opened: Document) -> Document:
        return await self.say({"getMore": opened["cursor"]["id"], "collection": "test"})

    async def fails(self, opened: Document) -> Document:
        """Its getMores until one of them fails."""
        async with asyncio.timeout(60):
            while (reply := await self.get_more(opened))["ok"] == 1:
                assert reply["cursor"]["id"] != 0, "the cursor came to its end"
        return reply


@pytest.mark.parametrize(("code", "labelled"), [(SHUTDOWN_IN_PROGRESS, True), (FAILED_TO_PARSE, False)])
async def test_a_get_more_that_fails_is_labelled_by_whether_its_code_is_resumable(
    st: ShardingTest, test_name: str, code: int, labelled: bool
) -> None:
    await st.s[test_name]["test"].insert_one({"_id": 0})
    failing = st.s if servers.has_mongos() else st.shard0
    # A shard's getMores come from a fellow server.
    error = {"errorCode": code, "failInternalCommands": True}
    async with st.s.start_session() as session:
        commands = Commands(st, session, test_name)
        async with await configure_fail_point(failing, "failGetMoreAfterCursorCheckout", error):
            failed = await commands.fails(await commands.aggregate(STREAM))
    assert failed["code"] == code
    assert failed.get("errorLabels", []) == ([RESUMABLE] if labelled else [])


@pytest.fixture
async def breakable() -> AsyncIterator[ShardingTest]:
    """Two shards, one of which is going to end."""
    async with ShardingTest(2, 1) as st:
        yield st


@pytest.mark.needs_server("6.0", "a router inside its mongods")
async def test_errors_of_a_stopped_shard_are_labelled_in_change_streams_alone(
    breakable: ShardingTest, test_name: str
) -> None:
    st = breakable
    await st.shard_coll(st.s[test_name]["test"], {"_id": 1}, {"_id": 0}, {"_id": 0})
    async with st.s.start_session() as session:
        commands = Commands(st, session, test_name)
        stream = await commands.aggregate(STREAM)
        documents = [{"_id": sign * id} for id in range(1, 11) for sign in (-1, 1)]
        await st.s[test_name]["test"].insert_many(documents)
        seen = 0
        async with asyncio.timeout(60):
            while seen < len(documents):
                seen += len((await commands.get_more(stream))["cursor"]["nextBatch"])
        found = await commands.say({"find": "test", "filter": {}, "sort": {"_id": 1}, "batchSize": 2})
        assert [one["_id"] for one in found["cursor"]["firstBatch"]] == [-10, -9]
        # Not asked for its first batch, or the router would have all that the shards have.
        aggregated = await commands.aggregate(SORTED, batchSize=0)

        await st.rs0.member(st.shard0).kill()
        failed = await commands.fails(stream)
        assert failed["code"] in OF_A_STOPPED_SHARD, failed
        assert RESUMABLE in failed.get("errorLabels", []), failed
        for opened in (found, aggregated):
            failed = await commands.fails(opened)
            assert failed["code"] in OF_A_STOPPED_SHARD, failed
            assert "errorLabels" not in failed

        stream_failed = await _first_error(commands)
        assert stream_failed["code"] == FAILED_TO_SATISFY_READ_PREFERENCE, stream_failed
        assert RESUMABLE in stream_failed.get("errorLabels", []), stream_failed
        for failed in (
            await commands.aggregate(SORTED),
            await commands.say({"find": "test", "filter": {}, "sort": {"_id": 1}}),
        ):
            assert failed["code"] == FAILED_TO_SATISFY_READ_PREFERENCE, failed
            assert "errorLabels" not in failed


async def _first_error(commands: Commands) -> Document:
    """What becomes of a new stream, in its first command or later."""
    opened = await commands.aggregate(STREAM)
    return opened if opened["ok"] != 1 else await commands.fails(opened)
