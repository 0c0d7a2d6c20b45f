"""Look: whether failCommand holds a command before its session is checked out.

hangBeforeSessionCheckOut is on as well, and counts who comes by: nobody may, as long as failCommand holds the insert.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from clusters import admin
from clusters.local import OwnCluster
from harness.suites.looks.server import DEADLINE, asking, fail_point, ops

NAME: Final = "checkout"
POINT: Final = "hangBeforeSessionCheckOut"
BLOCK_MS: Final = 1500
HELD: Final = 0.7
"""Seconds for which the insert is watched while it is held: half of its block."""


async def look(cluster: OwnCluster) -> Mapping[str, Any]:
    """How often a session was about to be checked out: `while_held` by failCommand, and `afterwards`."""
    blocked = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": BLOCK_MS, "appName": NAME}
    async with asking(cluster) as connection, cluster.client(appName=NAME) as client:
        await client[NAME]["records"].find_one({})

        async def entered() -> int:
            return int((await admin.fail_point(connection, POINT, deadline=DEADLINE))["timesEntered"])

        before = await entered()

        async def held() -> bool:
            return bool(await ops(connection, {"command.comment": NAME}))

        async def came_by() -> bool:
            return await entered() > before

        async with fail_point(cluster, "failCommand", json.dumps(blocked)):
            async with fail_point(cluster, POINT):
                write = asyncio.create_task(client[NAME]["records"].insert_one({}, comment=NAME))
                await admin.until("the insert is held", held, deadline=DEADLINE)
                await asyncio.sleep(HELD)  # nothing is to happen in this time, and it is this that is measured
                while_held = await entered() - before
                await admin.until("the insert's session is about to be checked out", came_by, deadline=DEADLINE)
                afterwards = await entered() - before
            await write
    return {"while_held": while_held, "afterwards": afterwards}
