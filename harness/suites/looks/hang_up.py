"""Look: which commands end when their client closes its connection, and which go on and take effect.

Each is held where it can be interrupted: by `$where` or `$function` that sleeps, insert by a fail point that checks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from clusters import admin
from clusters.local import OwnCluster
from clusters.wire.connection import Connection, ConnectionLost
from harness.suites.looks.server import DEADLINE, asking, fail_point, host_of, ops

DATABASE: Final = "hang_up"
SLEEP_MS: Final = 4000
GONE_WITHIN: Final = 1.5
"""Seconds from the close in which a command has ended because of it: 0.1 are enough, and the hold lasts longer."""
END_DEADLINE: Final = 30.0

SLOWLY: Final = {"$where": f"sleep({SLEEP_MS}) || true"}
DOCUMENTS: Final = 40
"""Of a pipeline: a `$function` is not interrupted while it sleeps, as a `$where` is, but between two of them it is
checked for (measured on 6.0.5)."""
SLOWLY_IN_A_PIPELINE: Final = {
    "$match": {
        "$expr": {
            "$function": {
                "body": f"function() {{ sleep({SLEEP_MS // DOCUMENTS}); return true }}",
                "args": [],
                "lang": "js",
            }
        }
    }
}
COMMANDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "insert": {"insert": "insert", "documents": [{"_id": 1}]},
    "update": {"update": "update", "updates": [{"q": SLOWLY, "u": {"$set": {"done": 1}}}]},
    "delete": {"delete": "delete", "deletes": [{"q": SLOWLY, "limit": 1}]},
    "findAndModify": {"findAndModify": "findAndModify", "query": SLOWLY, "update": {"$set": {"done": 1}}},
    "out": {"aggregate": "out", "pipeline": [SLOWLY_IN_A_PIPELINE, {"$out": "written"}], "cursor": {}},
    "merge": {"aggregate": "merge", "pipeline": [SLOWLY_IN_A_PIPELINE, {"$merge": "merged"}], "cursor": {}},
    "find": {"find": "find", "filter": SLOWLY},
    "count": {"count": "count", "query": SLOWLY},
    "distinct": {"distinct": "distinct", "key": "_id", "query": SLOWLY},
    "aggregate": {"aggregate": "aggregate", "pipeline": [SLOWLY_IN_A_PIPELINE], "cursor": {}},
}


async def look(cluster: OwnCluster) -> Mapping[str, Any]:
    """By command: `fared` (`ends` or `goes on`), `seconds` from the close until it was gone, and whether it took
    `effect`, None where it has none."""
    async with cluster.client() as client:
        for name in COMMANDS:
            number = DOCUMENTS if "aggregate" in COMMANDS[name] else 1
            await client[DATABASE][name].insert_many([{"_id": one} for one in range(number)])
        held = json.dumps({"nss": f"{DATABASE}.insert", "shouldCheckForInterrupt": True})
        async with fail_point(cluster, "hangDuringBatchInsert", held):
            seconds = await _closed(cluster)
        async with asking(cluster) as connection:

            async def none() -> bool:
                return not await ops(connection, {"command.comment.look": DATABASE})

            await admin.until("what went on has ended", none, deadline=END_DEADLINE)
        return {
            name: {
                "fared": "goes on" if seconds[name] is None else "ends",
                "seconds": seconds[name],
                "effect": await _effect(client[DATABASE], name),
            }
            for name in COMMANDS
        }


async def _closed(cluster: OwnCluster) -> dict[str, float | None]:
    """Seconds from the close until each was gone, None: it was there still when the time was over."""
    connections = {name: await Connection.open(host_of(cluster), deadline=DEADLINE) for name in COMMANDS}
    sent = [
        asyncio.create_task(
            connections[name].command(DATABASE, {**command, "comment": {"look": DATABASE, "command": name}})
        )
        for name, command in COMMANDS.items()
    ]
    async with asking(cluster) as connection:

        async def there() -> set[str]:
            found = await ops(connection, {"command.comment.look": DATABASE})
            return {one["command"]["comment"]["command"] for one in found}

        async def all_there() -> bool:
            return await there() == set(COMMANDS)

        try:
            await admin.until("every command is held", all_there, deadline=SLEEP_MS / 1000 / 2)
        finally:
            for one in connections.values():
                one.close()
            for task in sent:
                with suppress(ConnectionLost):
                    await task
        closed = time.monotonic()
        seconds: dict[str, float | None] = dict.fromkeys(COMMANDS)
        while (passed := time.monotonic() - closed) < GONE_WITHIN:
            left = await there()
            for name in COMMANDS:
                if name not in left and seconds[name] is None:
                    seconds[name] = round(passed, 2)
            await asyncio.sleep(0.05)
    return seconds


async def _effect(database: Any, name: str) -> bool | None:
    found = await database[name].find({}).to_list()
    if name == "insert":
        return len(found) == 2
    if name in ("update", "findAndModify"):
        return "done" in found[0]
    if name == "delete":
        return not found
    if name in ("out", "merge"):
        written = "written" if name == "out" else "merged"
        return bool(await database[written].count_documents({}) == DOCUMENTS)
    return None
