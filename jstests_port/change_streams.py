"""Change streams as cursors that resume nothing by themselves, so that a test sees every error (as in
jstests/libs/query/change_stream_util.js). For a stream as applications have it there is pymongo's `watch`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.database import AsyncDatabase

from jstests_port.assertions import assert_soon
from jstests_port.mongo import Document

AWAIT_MS = 200
"""How long a getMore waits for events. An idle shard, for which events of the others wait, is asked anew after it."""

Cursor = AsyncCommandCursor[Document]
Watched = AsyncCollection[Document] | AsyncDatabase[Document]


@asynccontextmanager
async def change_stream(
    watched: Watched,
    spec: Mapping[str, Any] | None = None,
    stages: Sequence[Mapping[str, Any]] = (),
    *,
    await_ms: int = AWAIT_MS,
    **options: Any,
) -> AsyncIterator[Cursor]:
    """A cursor of `[{$changeStream: spec}, *stages]`; `options` are those of the aggregate."""
    pipeline = [{"$changeStream": dict(spec or {})}, *stages]
    cursor = await watched.aggregate(pipeline, maxAwaitTimeMS=await_ms, **options)
    try:
        yield cursor
    finally:
        await cursor.close()


async def next_change(cursor: Cursor) -> Document:
    """The next event, which comes soon. Raises what the cursor raises."""
    found: list[Document] = []

    async def there() -> bool:
        event = await cursor.try_next()
        assert event is not None or cursor.alive, "the change stream was closed by the server"
        if event is not None:
            found.append(event)
        return event is not None

    await assert_soon(there, "the change stream has an event")
    return found[0]


async def next_changes(cursor: Cursor, count: int) -> list[Document]:
    return [await next_change(cursor) for _ in range(count)]


async def assert_no_change(cursor: Cursor, batches: int = 2) -> None:
    """So many getMores in a row bring nothing."""
    for _ in range(batches):
        event = await cursor.try_next()
        assert event is None, f"expected no event, found {event}"
