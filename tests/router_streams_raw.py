"""Change streams of raw commands, to the router and to a plain replica set alike: what a driver would hide is seen."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import CommandFailed, Connection

DEADLINE = 30.0

Document = dict[str, Any]


class Raw:
    """A connection to the router, or to the primary of a replica set; `database` is of this connection alone."""

    def __init__(self, connection: Connection, database: str) -> None:
        self.connection = connection
        self.database = database

    async def command(self, document: Mapping[str, Any], database: str | None = None) -> Document:
        return await self.connection.command(database or self.database, document, deadline=DEADLINE)

    async def refused(self, document: Mapping[str, Any], database: str | None = None) -> Document:
        """The error a command ends with, without the times that every reply carries."""
        try:
            reply = await self.command(document, database)
        except CommandFailed as error:
            return {name: value for name, value in error.reply.items() if name in ("code", "codeName", "errorLabels")}
        raise AssertionError(f"{document} was not refused: {reply}")

    async def open(
        self,
        options: Mapping[str, Any] | None = None,
        collection: str | int = "orders",
        stages: Sequence[Mapping[str, Any]] = (),
        **fields: Any,
    ) -> Stream:
        """On a collection, on the database (1), or, with allChangesForCluster, on the cluster."""
        options = options or {}
        database = "admin" if options.get("allChangesForCluster") else self.database
        command = {"aggregate": collection, "pipeline": [{"$changeStream": options}, *stages], "cursor": {}, **fields}
        return Stream(self, database, (await self.command(command, database))["cursor"])


class Stream:
    """`token` is the last postBatchResumeToken, `cursor_id` 0 once the server has closed the stream."""

    def __init__(self, raw: Raw, database: str, cursor: Mapping[str, Any]) -> None:
        self.raw = raw
        self.database = database
        self.collection: str = cursor["ns"].partition(".")[2]
        self.cursor_id: int = cursor["id"]
        self.token: Document = cursor["postBatchResumeToken"]
        self.first: list[Document] = cursor["firstBatch"]

    async def get_more(self, **fields: Any) -> list[Document]:
        command = {"getMore": self.cursor_id, "collection": self.collection, "maxTimeMS": 100, **fields}
        cursor = (await self.raw.command(command, self.database))["cursor"]
        self.cursor_id = cursor["id"]
        self.token = cursor["postBatchResumeToken"]
        batch: list[Document] = cursor["nextBatch"]
        return batch

    async def read(self, count: int, **fields: Any) -> list[Document]:
        """`count` events, or those up to the stream's end."""
        events, self.first = self.first, []
        async with asyncio.timeout(DEADLINE):
            while len(events) < count and self.cursor_id:
                events = events + await self.get_more(**fields)
        return events

    async def failure(self) -> CommandFailed:
        """What the stream ends with."""
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    await self.get_more()
                except CommandFailed as error:
                    return error

    async def idle_token(self) -> Document:
        """The token of an empty batch that has gone past the event given last."""
        before = self.token
        async with asyncio.timeout(DEADLINE):
            while self.token == before:
                assert await self.get_more() == []
        return self.token


@asynccontextmanager
async def raw_to(cluster: LocalCluster) -> AsyncIterator[Raw]:
    """On a database of its own, dropped afterwards."""
    host = cluster.router or (await primary_of(cluster, cluster.topology.shards[0].name)).host
    connection = await Connection.open(host, deadline=DEADLINE)
    raw = Raw(connection, f"raw_{uuid.uuid4().hex[:8]}")
    try:
        yield raw
    finally:
        await raw.command({"dropDatabase": 1})
        connection.close()


async def spread(raw: Raw, collection: str = "orders") -> None:
    """Sharded on `region`: below 0 on shard0, from 0 on shard1. Nothing to do where there are no shards."""
    if raw.connection.hello.get("msg") != "isdbgrid":
        return
    namespace = f"{raw.database}.{collection}"
    await raw.command({"enableSharding": raw.database, "primaryShard": "shard0"}, "admin")
    await raw.command({"shardCollection": namespace, "key": {"region": 1}}, "admin")
    await raw.command({"moveRange": namespace, "min": {"region": 0}, "toShard": "shard1"}, "admin")


async def insert(raw: Raw, numbers: Sequence[int], collection: str = "orders", **fields: Any) -> None:
    """Even ones to shard0, odd ones to shard1."""
    for n in numbers:
        await raw.command(
            {
                "insert": collection,
                "documents": [{"_id": n, "region": n % 2 * 2 - 1, **fields}],
                "writeConcern": {"w": "majority"},
            }
        )


async def update(raw: Raw, n: int, change: Mapping[str, Any], collection: str = "orders") -> None:
    query = {"_id": n, "region": n % 2 * 2 - 1}
    await raw.command({"update": collection, "updates": [{"q": query, "u": change}], "writeConcern": {"w": "majority"}})


def numbers(events: Sequence[Mapping[str, Any]]) -> list[int]:
    return [event["documentKey"]["_id"] for event in events if "documentKey" in event]


def kinds(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["operationType"] for event in events]


async def seconds(waiting: Any) -> tuple[float, Any]:
    began = time.monotonic()
    result = await waiting
    return time.monotonic() - began, result
