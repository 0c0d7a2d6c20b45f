"""Upstream: jstests/replsets/already_checked_out_session.js

A write holds its session and waits for a lock; a second one of that session waits for the first. Both end once the lock
is free (SERVER-36007 was a deadlock of the second with itself).

Differs: the set has three members, not one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from jstests_port.assertions import assert_soon
from jstests_port.mongo import Mongo
from jstests_port.raw_connection import raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.retryable_writes import new_lsid, numbered


async def test_two_writes_of_one_session_take_turns(rst: ReplSetTest, test_name: str) -> None:
    primary = await rst.get_primary()
    lsid = new_lsid()

    async def insert(number: int) -> dict[str, Any]:
        async with raw_connection(primary.host) as own:
            command = numbered({"insert": "mycoll", "documents": [{"_id": number}]}, lsid, number)
            return await own.run_command(test_name, command)

    await primary[test_name].create_collection("mycoll")
    await primary.admin.command("fsync", lock=True)
    try:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(insert(1))
            await assert_soon(lambda: under_way(primary, test_name, 1, waits_for_lock=True), "1 waits for the lock")
            second = group.create_task(insert(2))
            await assert_soon(lambda: under_way(primary, test_name, 2, waits_for_lock=False), "2 waits for its session")
            assert not first.done()
            assert not second.done()
            await primary.admin.command("fsyncUnlock")
    finally:
        await unlock(primary)
    left = await primary[test_name].mycoll.find().sort("_id").to_list()

    assert [(one.result()["ok"], one.result()["n"]) for one in (first, second)] == [(1, 1), (1, 1)]
    assert left == [{"_id": 1}, {"_id": 2}]


async def under_way(primary: Mongo, database: str, number: int, *, waits_for_lock: bool) -> bool:
    """Whether one insert under that number is, and waits for a lock or does not."""
    looked_for = {
        "command.insert": "mycoll",
        "command.$db": database,
        "command.txnNumber": number,
        "waitingForLock": waits_for_lock,
    }
    ops = await primary.admin.aggregate([{"$currentOp": {}}, {"$match": looked_for}])
    return len(await ops.to_list()) == 1


async def unlock(primary: Mongo) -> None:
    """Once for every lock that is still held, as fsyncLock counts them."""
    while (await primary.admin.command("currentOp")).get("fsyncLock"):
        await primary.admin.command("fsyncUnlock")
