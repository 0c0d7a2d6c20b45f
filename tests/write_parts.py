"""What writes leave on the wire and in a collection of their own, for tests of kinds of writes and of consumers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent
from pymongo.read_concern import ReadConcern

from clusters.cluster import data_members
from clusters.local import LocalCluster
from observed import fail_point

WRITES = ("insert", "update", "delete", "findAndModify")


class Heard(CommandListener):
    """The writing commands of its clients, in the order in which the driver sent them."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in WRITES:
            self.commands.append({"name": event.command_name, **event.command})

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...

    @property
    def transactions(self) -> list[tuple[bytes, int | None]]:
        return [(bytes(one["lsid"]["id"]), one.get("txnNumber")) for one in self.commands]


@asynccontextmanager
async def failing(cluster: LocalCluster, app_name: str, command: str, mode: Any, **data: Any) -> AsyncIterator[None]:
    """`failCommand` for one application's commands. Its end waits for those that it holds."""
    async with fail_point(cluster, "failCommand", mode, {"failCommands": [command], "appName": app_name, **data}):
        yield


async def struck(cluster: LocalCluster) -> int:
    """How often `failCommand` has struck so far: it goes on counting when it is set anew."""
    count = 0
    for member in data_members(cluster):
        async with member.client() as client:
            state = await client.admin.command({"getParameter": 1, "failpoint.failCommand": 1})
            count += state["failpoint.failCommand"]["timesEntered"]
    return count


async def struck_more_than(cluster: LocalCluster, before: int) -> None:
    async with asyncio.timeout(20):
        while await struck(cluster) <= before:
            pass


async def documents_of(cluster: LocalCluster, namespace: str, at_least: int = 0) -> list[dict[str, Any]]:
    """All that the majority has; waits until it is so many, for what nobody acknowledged."""
    database, _, name = namespace.partition(".")
    async with cluster.client() as client, asyncio.timeout(20):
        collection = client[database].get_collection(name, read_concern=ReadConcern("majority"))
        while True:
            found = await collection.find({}).sort("_id").to_list()
            if len(found) >= at_least:
                return found
            await asyncio.sleep(0.05)
