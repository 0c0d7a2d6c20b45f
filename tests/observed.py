"""A namespace under load in a test, and the history of what happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clusters.cluster import data_members
from clusters.local import LocalCluster
from harness.drivers.streams import StreamPlan, Streams
from harness.drivers.writers import Document, Writer, WriterPlan
from harness.history import Event, Recorder

DEADLINE = 60.0


class Observed:
    """A namespace of its own with a document per key, and the history of what happens to it."""

    def __init__(self, cluster: LocalCluster, namespace: str, path: Path, documents: Sequence[Document]) -> None:
        self.cluster = cluster
        self.documents = documents
        self.namespace = namespace
        self.run = namespace
        self.history: list[Event] = []
        self.recorder = Recorder(path)
        self.recorder.subscribe(self.history.append)
        self._news = asyncio.Event()
        self.recorder.subscribe(lambda _event: self._news.set())

    def plan(self, count: int = 2, **changes: Any) -> StreamPlan:
        plan = {"uri": self.cluster.uri, "namespace": self.namespace, "count": count, "run": self.run}
        return StreamPlan(**{**plan, "max_await_time_ms": 200, **changes})

    def writer(self, rate: float = 50.0, **changes: Any) -> Writer:
        plan = {"uri": self.cluster.uri, "namespace": self.namespace, "run": self.run, "documents": self.documents}
        return Writer(self.recorder, WriterPlan(**{**plan, "rate": rate, **changes}))

    def of(self, kind: str, **fields: Any) -> list[Event]:
        return [
            one
            for one in self.history
            if one.kind == kind and all(one.get(name) == value for name, value in fields.items())
        ]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {DEADLINE:g} s: {what}; {self.history[-5:]}") from None

    def exact(self, stream: str) -> bool:
        """Whether the stream has delivered what was acknowledged, per document each once and in order."""
        # Events without a sequence are the documents' inserts: a stream on a secondary that is a little behind begins
        # where that member stands, so before them.
        events = self.of("stream.event", stream=stream)
        seen = [(one["key"], one["seq"]) for one in events if one["seq"] is not None]
        wrote = [(one["key"], one["seq"]) for one in self.of("write.ok")]
        return all(
            [seq for key, seq in seen if key == wanted] == [seq for key, seq in wrote if key == wanted]
            for wanted in [one.key for one in self.documents]
        )


@asynccontextmanager
async def streaming(observed: Observed, plan: StreamPlan) -> AsyncIterator[Streams]:
    streams = Streams(observed.recorder, plan)
    await streams.start(deadline=DEADLINE)
    try:
        yield streams
    finally:
        await streams.stop()


async def write_some(observed: Observed, writes: int = 12, **changes: Any) -> None:
    writer = observed.writer(**changes)
    await writer.start()
    await observed.until(lambda: len(observed.of("write.ok")) >= writes, f"{writes} writes")
    await writer.stop()


@asynccontextmanager
async def fail_point(cluster: LocalCluster, name: str, mode: Any, data: dict[str, Any]) -> AsyncIterator[None]:
    """On every member: whichever serves the command."""
    clients = [member.client() for member in data_members(cluster)]
    try:
        for client in clients:
            await client.admin.command("configureFailPoint", name, mode=mode, data=data)
        yield
    finally:
        for client in clients:
            await client.admin.command("configureFailPoint", name, mode="off")
            await client.close()
