"""A look at a cluster as `mongofault watch` takes it, and a stranger's stream for it to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from clusters.cluster import Cluster
from clusters.uri import parse
from harness.watching.judging import Picture
from harness.watching.seats import find
from harness.watching.watch import Pace, Watch

DEADLINE = 60.0


async def one_look(uri: str, *, patience: float = 20.0) -> Picture:
    pace = Pace(every=1.0, past=3.0, patience=patience)
    return await Watch(await find(parse(uri)), pace, lambda _picture, _events: None).once()


@asynccontextmanager
async def consuming(cluster: Cluster, collection: str, **options: Any) -> AsyncIterator[None]:
    """A stream that somebody reads."""
    async with cluster.client() as client:
        preference = options.pop("read_preference", None)
        stream = await client.app.get_collection(collection, read_preference=preference).watch(**options)

        async def read() -> None:
            while True:
                await stream.try_next()

        task = asyncio.create_task(read())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await stream.close()
