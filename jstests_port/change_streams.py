"""Change streams as cursors that resume nothing by themselves, so that a test sees every error (as in
jstests/libs/query/change_stream_util.js). For a stream as applications have it there is pymongo's `watch`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Protocol

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.database import AsyncDatabase

from jstests_port.assertions import assert_soon
from jstests_port.mongo import Document

AWAIT_MS = 200
"""How long a getMore waits for events. An idle shard, for which events of the others wait, is asked anew after it."""
OF_THE_SERVER = ("_id", "clusterTime", "wallTime", "collectionUUID")
"""What no test can know of an event."""

Collection = AsyncCollection[Document]
Watched = Collection | AsyncDatabase[Document]


class Stream(Protocol):
    """A cursor, or a stream of pymongo's `watch`."""

    @property
    def alive(self) -> bool: ...

    async def try_next(self) -> Document | None: ...


class WatchMode(StrEnum):
    """Upstream's `ChangeStreamWatchMode`."""

    COLLECTION = "collection"
    DATABASE = "database"
    CLUSTER = "cluster"


def watched(mode: WatchMode, collection: Collection) -> tuple[Watched, Document]:
    """What a stream of this mode that has the events of `collection` is opened on, and what its spec needs for it."""
    match mode:
        case WatchMode.COLLECTION:
            return collection, {}
        case WatchMode.DATABASE:
            return collection.database, {}
        case WatchMode.CLUSTER:
            return collection.database.client.admin, {"allChangesForCluster": True}


@asynccontextmanager
async def change_stream(
    on: Watched,
    spec: Mapping[str, Any] | None = None,
    stages: Sequence[Mapping[str, Any]] = (),
    *,
    await_ms: int = AWAIT_MS,
    **options: Any,
) -> AsyncIterator[AsyncCommandCursor[Document]]:
    """A cursor of `[{$changeStream: spec}, *stages]`; `options` are those of the aggregate."""
    pipeline = [{"$changeStream": dict(spec or {})}, *stages]
    cursor = await on.aggregate(pipeline, maxAwaitTimeMS=await_ms, **options)
    try:
        yield cursor
    finally:
        await cursor.close()


async def next_change(stream: Stream, *, timeout: float = 30) -> Document:
    """The next event, which comes soon. Raises what the stream raises."""
    found: list[Document] = []

    async def there() -> bool:
        event = await stream.try_next()
        assert event is not None or stream.alive, "the change stream was closed by the server"
        if event is not None:
            found.append(event)
        return event is not None

    await assert_soon(there, "the change stream has an event", timeout=timeout)
    return found[0]


async def next_changes(stream: Stream, count: int) -> list[Document]:
    return [await next_change(stream) for _ in range(count)]


async def assert_next_changes_equal(stream: Stream, expected: Sequence[Document]) -> list[Document]:
    """The next events are these, but for what no test can know of them."""
    changes = await next_changes(stream, len(expected))
    known = [{name: value for name, value in one.items() if name not in OF_THE_SERVER} for one in changes]
    assert known == list(expected), known
    return changes


async def assert_no_change(stream: Stream, batches: int = 2) -> None:
    """So many getMores in a row bring nothing."""
    for _ in range(batches):
        event = await stream.try_next()
        assert event is None, f"expected no event, found {event}"
