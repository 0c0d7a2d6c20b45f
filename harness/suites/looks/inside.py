"""Look: where `$currentOp` has lsid and txnNumber of writes that are held, and of their resends.

Four commands are held, each twice over: at failCommand, and inside the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from clusters import admin
from clusters.local import OwnCluster
from harness.scenarios.overlap_faults import ENGINE_HANGS, engine_hang
from harness.suites.looks.server import asking, fail_point, ops
from harness.watchers.counters import at

DATABASE: Final = "inside"
SOCKET_TIMEOUT_MS: Final = 500
BLOCK_MS: Final = 1500
"""Longer than original and resend wait, so that both are seen."""
SEEN_DEADLINE: Final = 10.0
"""Seconds until all that were sent must be seen at once."""
COMMANDS: Final = tuple(ENGINE_HANGS)


async def look(cluster: OwnCluster) -> Mapping[str, Any]:
    """By `failCommand` and `engine`, for each op that was seen at one time which fields it has."""
    for command in COMMANDS:
        async with cluster.client() as client:
            await client[DATABASE][command].insert_one({"_id": 0})
    blocked = {"failCommands": list(COMMANDS), "blockConnection": True, "blockTimeMS": BLOCK_MS, "appName": DATABASE}
    return {
        "failCommand": await _held(cluster, [("failCommand", json.dumps(blocked))]),
        "engine": await _held(cluster, [engine_hang(command, f"{DATABASE}.{command}") for command in COMMANDS]),
    }


async def _held(cluster: OwnCluster, points: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    async with (
        asking(cluster) as connection,
        cluster.client(socketTimeoutMS=SOCKET_TIMEOUT_MS, appName=DATABASE, minPoolSize=2 * len(COMMANDS)) as client,
    ):
        await client.admin.command("ping")

        async def all_seen() -> bool:
            found = await ops(connection, {"command.comment.look": DATABASE})
            seen[:] = found
            return len(found) >= 2 * len(COMMANDS)

        async with AsyncExitStack() as stack:
            for point, data in points:
                await stack.enter_async_context(fail_point(cluster, point, data))
            writes = [asyncio.ensure_future(one) for one in _writes(client[DATABASE])]
            try:
                await admin.until("every write and its resend is held", all_seen, deadline=SEEN_DEADLINE)
            finally:
                await asyncio.gather(*writes, return_exceptions=True)
    return [_fields(one) for one in seen]


def _writes(database: Any) -> list[Awaitable[Any]]:
    def comment(command: str) -> dict[str, Any]:
        return {"comment": {"look": DATABASE, "command": command}}

    return [
        database["insert"].insert_one({}, **comment("insert")),
        database["update"].update_one({"_id": 0}, {"$inc": {"n": 1}}, **comment("update")),
        database["delete"].delete_one({"_id": 0}, **comment("delete")),
        database["findAndModify"].find_one_and_update({"_id": 0}, {"$inc": {"n": 1}}, **comment("findAndModify")),
    ]


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    command: Mapping[str, Any] = entry["command"]
    return {
        "command": command["comment"]["command"],
        "verb": next((name for name in command if name in COMMANDS), None),
        "op": entry.get("op"),
        "lsid": "lsid" in entry,
        "command_lsid": "lsid" in command,
        "command_txn": "txnNumber" in command,
        "in_session": "transaction" in entry,
        "transaction_txn": at(entry, "transaction.parameters.txnNumber") is not None,
        "begun": "microsecs_running" in entry,
        "latch": at(entry, "waitingForLatch.captureName"),
    }
