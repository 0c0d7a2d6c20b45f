"""Upstream: jstests/sharding/retryable_writes.js

A retryable write that is sent again is answered, and not carried out again: the same answer, the same documents, no
entry in the oplog, and the counters say so.

Differs: nothing drops config.system.sessions in between. Each part is a test on a fresh database, of a replica set of
three and of a database behind a router. A stand-in router, like a mongos of 6.0, sends a numbered write again by itself
where its shard broke the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Mongo
from jstests_port.raw_connection import NETWORK_ERRORS, RawConnection, raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.retryable_writes import assert_same_answer, new_lsid, numbered
from jstests_port.sharding_test import ShardingTest

SEEN = ("retriedCommandsCount", "retriedStatementsCount", "transactionsCollectionWriteCount")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test writes: through `main`, which is the primary itself or a router before it."""

    main: RawConnection
    primary: Mongo
    database: str

    async def run(self, command: Mapping[str, Any], database: str | None = None) -> dict[str, Any]:
        return await self.main.run_command(database or self.database, command)

    async def documents(self, query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """On the primary, by `_id`."""
        return await self.primary[self.database].user.find(query or {}).sort("_id").to_list()

    async def seen(self) -> tuple[dict[str, int], int]:
        """The primary's counters of retries, and how many entries its oplog has of the collection."""
        status = (await self.primary.admin.command("serverStatus"))["transactions"]
        entries = await self.primary.local["oplog.rs"].count_documents({"ns": f"{self.database}.user"})
        return {name: status[name] for name in SEEN}, entries


@pytest.fixture
async def on_primary(rst: ReplSetTest, test_name: str) -> AsyncIterator[Place]:
    primary = await rst.get_primary()
    await primary[test_name].create_collection("user")
    async with raw_connection(primary.host) as main:
        yield Place(main, primary, test_name)


@pytest.fixture
async def through_router(st: ShardingTest, test_name: str) -> AsyncIterator[Place]:
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s[test_name].create_collection("user")
    async with raw_connection(st.s.host) as main:
        yield Place(main, await st.rs0.get_primary(), test_name)


@pytest.fixture(params=["on_primary", "through_router"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


async def sent_twice(
    place: Place, command: Mapping[str, Any], *, statements: int, writes: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The first answer, and the documents after the retry.

    `statements` are answered from the session's record, which was written `writes` times, for the first send alone.
    """
    sent = numbered(command, new_lsid(), 34)
    (before, _), first = await place.seen(), await place.run(sent)
    written, left = (await place.seen())[1], await place.documents()
    again = await place.run(sent)
    after, entries = await place.seen()

    assert_same_answer(first, again)
    assert {name: after[name] - before[name] for name in SEEN} == dict(zip(SEEN, (1, statements, writes), strict=True))
    assert entries == written
    assert await place.documents() == left
    return first, left


async def test_an_insert_sent_again_inserts_nothing(place: Place) -> None:
    command = {"insert": "user", "documents": [{"_id": 10}, {"_id": 30}], "ordered": False}

    first, left = await sent_twice(place, command, statements=2, writes=1)

    assert first["n"] == 2
    assert left == [{"_id": 10}, {"_id": 30}]


async def test_an_update_sent_again_changes_nothing(place: Place) -> None:
    await place.primary[place.database].user.insert_many([{"_id": 10}, {"_id": 30}])
    updates = [
        {"q": {"_id": 10}, "u": {"$inc": {"x": 1}}},
        {"q": {"_id": 20}, "u": {"$inc": {"y": 1}}, "upsert": True},
        {"q": {"_id": 30}, "u": {"z": 1}},
    ]

    first, left = await sent_twice(
        place, {"update": "user", "updates": updates, "ordered": False}, statements=3, writes=3
    )

    assert (first["n"], first["nModified"]) == (3, 2)
    assert left == [{"_id": 10, "x": 1}, {"_id": 20, "y": 1}, {"_id": 30, "z": 1}]


async def test_a_delete_sent_again_deletes_no_other_document(place: Place) -> None:
    documents = [{"_id": 10, "x": 1}, {"_id": 20, "y": 1}, {"_id": 40, "x": 1}, {"_id": 50, "y": 1}]
    await place.primary[place.database].user.insert_many(documents)
    deletes = [{"q": {"x": 1}, "limit": 1}, {"q": {"y": 1}, "limit": 1}]

    await sent_twice(place, {"delete": "user", "deletes": deletes, "ordered": False}, statements=2, writes=2)

    assert len(await place.documents({"x": 1})) == 1
    assert len(await place.documents({"y": 1})) == 1


FIND_AND_MODIFY: dict[str, tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any] | None, list[dict[str, Any]]]] = {
    "an upsert": (
        [],
        {"query": {"_id": 60}, "update": {"$inc": {"x": 1}}, "new": True, "upsert": True},
        {"_id": 60, "x": 1},
        [{"_id": 60, "x": 1}],
    ),
    "an update with the pre-image": (
        [{"_id": 60, "x": 1}],
        {"query": {"_id": 60}, "update": {"$inc": {"x": 1}}, "new": False, "upsert": False},
        {"_id": 60, "x": 1},
        [{"_id": 60, "x": 2}],
    ),
    "an update with the post-image": (
        [{"_id": 60, "x": 2}],
        {"query": {"_id": 60}, "update": {"$inc": {"x": 1}}, "new": True, "upsert": False},
        {"_id": 60, "x": 3},
        [{"_id": 60, "x": 3}],
    ),
    "a removal": (
        [{"_id": 70, "f": 1}, {"_id": 80, "f": 1}],
        {"query": {"f": 1}, "sort": {"_id": 1}, "remove": True},
        {"_id": 70, "f": 1},
        [{"_id": 80, "f": 1}],
    ),
}
"""What is there before, the command, the `value` of both answers, what is there afterwards."""


@pytest.mark.parametrize("case", FIND_AND_MODIFY)
async def test_a_find_and_modify_sent_again_gives_the_same_image(place: Place, case: str) -> None:
    before, command, value, after = FIND_AND_MODIFY[case]
    if before:
        await place.primary[place.database].user.insert_many(before)

    first, left = await sent_twice(place, {"findAndModify": "user", **command}, statements=1, writes=1)

    assert first["value"] == value
    assert left == after


async def test_a_write_whose_answer_is_lost_has_been_carried_out(place: Place) -> None:
    """The client of a primary loses its connection; a router sends again and is answered."""
    command = {"insert": "user", "documents": [{"x": 0}, {"x": 1}], "ordered": True}
    sent = numbered(command, new_lsid(), 1)

    async with await configure_fail_point(place.primary, "onPrimaryTransactionalWrite"):
        try:
            reply = await place.run(sent)
        except NETWORK_ERRORS:
            reply = None

    assert reply is None or (reply["n"], reply.get("writeErrors")) == (2, None)
    assert [one["x"] for one in await place.documents()] == [0, 1]


async def test_a_retry_carries_out_what_failed_and_repeats_what_did_not(place: Place) -> None:
    await place.primary[place.database].user.insert_many([{"_id": 0, "x": 0}, {"_id": 1, "x": 1}])
    updates = [{"q": {"x": 0}, "u": {"$inc": {"y": 1}}}, {"q": {"x": 1}, "u": {"$inc": {"y": 1}}}]
    sent = numbered({"update": "user", "updates": updates, "ordered": True}, new_lsid(), 2)
    how = {"closeConnection": False, "failBeforeCommitExceptionCode": ErrorCodes.InternalError.value}

    async with await configure_fail_point(place.primary, "onPrimaryTransactionalWrite", how, {"skip": 1}):
        failed = await place.run(sent)
    again = await place.run(sent)

    assert failed["nModified"] == 1
    assert [(one["index"], one["code"]) for one in failed["writeErrors"]] == [(1, ErrorCodes.InternalError)]
    assert again["nModified"] == 2
    assert await place.documents() == [{"_id": 0, "x": 0, "y": 1}, {"_id": 1, "x": 1, "y": 1}]


async def test_a_number_below_the_session_s_last_is_too_old(on_primary: Place) -> None:
    lsid = new_lsid()
    await on_primary.run(numbered({"insert": "user", "documents": [{"x": 1}]}, lsid, 2))

    late = {"update": "user", "updates": [{"q": {"x": 1}, "u": {"$inc": {"x": 1}}}]}
    reply = await on_primary.run(numbered(late, lsid, 1))

    assert reply["code"] == ErrorCodes.TransactionTooOld
    assert [one["x"] for one in await on_primary.documents()] == [1]


MULTIPLE: Sequence[dict[str, Any]] = (
    {"update": "user", "updates": [{"q": {"x": 1}, "u": {"y": 1}}, {"q": {"x": 2}, "u": {"z": 1}, "multi": True}]},
    {"delete": "user", "deletes": [{"q": {"x": 1}, "limit": 1}, {"q": {"y": 1}, "limit": 0}]},
)


@pytest.mark.parametrize("command", MULTIPLE, ids=("update", "delete"))
async def test_only_the_statement_for_many_documents_may_not_be_numbered(
    place: Place, command: Mapping[str, Any]
) -> None:
    reply = await place.run(numbered(command, new_lsid(), 1))

    assert reply["ok"] == 1
    assert [(one["index"], one["code"]) for one in reply["writeErrors"]] == [(1, ErrorCodes.InvalidOptions)]


UNREPLICATED: Mapping[str, tuple[dict[str, Any], int]] = {
    "insert": ({"documents": [{"_id": 10}, {"_id": 30}], "ordered": False}, 2),
    "update": (
        {
            "updates": [
                {"q": {"_id": 10}, "u": {"$inc": {"x": 1}}},
                {"q": {"_id": 20}, "u": {"$inc": {"y": 1}}, "upsert": True},
                {"q": {"_id": 30}, "u": {"z": 1}},
            ],
            "ordered": False,
        },
        3,
    ),
    "delete": ({"deletes": [{"q": {"x": 1}, "limit": 1}, {"q": {"z": 2}, "limit": 1}], "ordered": False}, 2),
    "findAndModify": ({"query": {"_id": 60}, "update": {"$inc": {"x": 1}}, "new": True, "upsert": True}, 0),
}
"""Of a database without an oplog, and how many statements of the command fail; none: it fails as a whole."""


@pytest.mark.parametrize("kind", UNREPLICATED)
async def test_nothing_unreplicated_is_written_under_a_number(on_primary: Place, kind: str) -> None:
    name = f"user_{on_primary.database}"
    fields, errors = UNREPLICATED[kind]
    documents = [{"_id": 10, "x": 1}, {"_id": 30, "z": 2}] if kind in ("update", "delete") else []
    collection = on_primary.primary.local[name]
    if documents:
        await on_primary.run({"insert": name, "documents": documents}, "local")
    try:
        reply = await on_primary.run(numbered({kind: name, **fields}, new_lsid(), 10), "local")
        left = await collection.find().sort("_id").to_list()
    finally:
        await collection.drop()

    assert len(reply.get("writeErrors", ())) == errors
    assert reply["ok"] == (1 if errors else 0)
    assert left == documents
