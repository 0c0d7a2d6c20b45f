"""Upstream: jstests/core/crud_ops_do_not_throw_locktimeout.js

While a collMod holds the lock of a collection for writing, a write outside of transactions waits as long as maxTimeMS
says, and fails with 50, never with 24 LockTimeout; a read takes no such lock (since 5.0) and is answered.

Differs: the limit is 0.3 s, not 1 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.parallel import parallel_shell
from jstests_port.raw_connection import raw_connection
from jstests_port.repl_set_test import ReplSetTest

LIMIT_MS: Final = 300
DOCUMENT: Final = {"_id": 1}

WRITES: Mapping[str, dict[str, Any]] = {
    "insert": {"insert": "c", "documents": [{"_id": 2}]},
    "update": {"update": "c", "updates": [{"q": DOCUMENT, "u": {"$set": {"b": 1}}}]},
    "delete": {"delete": "c", "deletes": [{"q": DOCUMENT, "limit": 1}]},
    "findAndModify with an update": {"findAndModify": "c", "query": DOCUMENT, "update": {"$set": {"b": 2}}},
    "findAndModify with a removal": {"findAndModify": "c", "query": DOCUMENT, "remove": True},
}


async def test_writes_that_wait_for_a_lock_end_by_their_limit_and_reads_do_not_wait(
    rst: ReplSetTest, test_name: str
) -> None:
    primary = await rst.get_primary()
    collection = primary[test_name].c
    await collection.insert_one(DOCUMENT)
    held = await configure_fail_point(primary, "hangAfterDatabaseLock")
    async with held, parallel_shell(changed(primary, test_name), "collMod") as changing:
        await held.wait()
        async with raw_connection(primary.host) as own:
            replies = {
                name: await own.run_command(test_name, {**write, "maxTimeMS": LIMIT_MS})
                for name, write in WRITES.items()
            }
            found = await own.run_command(test_name, {"find": "c", "maxTimeMS": LIMIT_MS})
        assert not changing.done()
        await held.off()

    assert {name: code_of(reply) for name, reply in replies.items()} == dict.fromkeys(
        WRITES, ErrorCodes.MaxTimeMSExpired
    )
    assert (found["ok"], found["cursor"]["firstBatch"]) == (1, [DOCUMENT])
    assert await collection.find().to_list() == [DOCUMENT]


async def changed(primary: Mongo, database: str) -> None:
    """By a collMod that changes nothing, and takes the lock all the same."""
    async with raw_connection(primary.host) as own:
        assert (await own.run_command(database, {"collMod": "c"}))["ok"] == 1


def code_of(reply: Document) -> int | None:
    """Of a command that failed, or of its first write error."""
    error = next(iter(reply.get("writeErrors", ())), reply)
    return error.get("code")
