"""Consumers and writer on a replica set of real servers: nothing lost, nothing doubled, every outcome recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64

from clusters.cluster import data_members
from clusters.local import LocalCluster
from harness.drivers.clients import parse_driver_options
from harness.drivers.streams import StreamPlan, Streams, StreamsNotOpen
from harness.drivers.writers import Document, Writer, WriterPlan
from harness.history import Event, Recorder

pytestmark = pytest.mark.live

KEYS = ("a", "b", "c")
DEADLINE = 20.0


class Watched:
    """A namespace of its own with a document per key, and the history of what happens to it."""

    def __init__(self, cluster: LocalCluster, namespace: str, path: Path) -> None:
        self.cluster = cluster
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
        documents = [Document(key, "rs0", {"_id": key}) for key in KEYS]
        plan = {"uri": self.cluster.uri, "namespace": self.namespace, "run": self.run, "documents": documents}
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
        seen = [(one["key"], one["seq"]) for one in self.of("stream.event", stream=stream)]
        wrote = [(one["key"], one["seq"]) for one in self.of("write.ok")]
        return all(
            [seq for key, seq in seen if key == wanted] == [seq for key, seq in wrote if key == wanted]
            for wanted in KEYS
        )


@pytest.fixture
async def watched(replica_set: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    collection = request.node.name.split("[")[0][-60:]
    watched = Watched(replica_set, f"drivers.{collection}", tmp_path / "history.jsonl")
    async with replica_set.client() as client:
        await client.drivers[collection].insert_many([{"_id": key, "seq": 0} for key in KEYS])
        try:
            yield watched
        finally:
            watched.recorder.close()
            await client.drivers.drop_collection(collection)


@asynccontextmanager
async def streaming(watched: Watched, plan: StreamPlan) -> AsyncIterator[Streams]:
    streams = Streams(watched.recorder, plan)
    await streams.start(deadline=DEADLINE)
    try:
        yield streams
    finally:
        await streams.stop()


async def write_some(watched: Watched, writes: int = 12) -> None:
    writer = watched.writer()
    await writer.start()
    await watched.until(lambda: len(watched.of("write.ok")) >= writes, f"{writes} writes")
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


@pytest.mark.parametrize("shared", [False, True], ids=["a client each", "one client"])
async def test_every_stream_delivers_every_write_once_and_in_order(watched: Watched, shared: bool) -> None:
    async with streaming(watched, watched.plan(3, read_preference="secondary", shared_client=shared)):
        await write_some(watched, 30)
        await watched.until(lambda: all(watched.exact(name) for name in ("s1", "s2", "s3")), "all delivered")
        # An empty answer carries a token as well: it tells a healthy idle stream from one that waits.
        empties = len(watched.of("stream.empty"))
        await watched.until(lambda: len(watched.of("stream.empty")) > empties, "an empty answer")
    event = watched.of("stream.event")[0]
    assert event["op"] == "update"
    assert len(event["cluster_time"]) == 2
    assert watched.of("stream.empty")[-1]["token"].startswith("82")
    assert {one["reason"] for one in watched.of("stream.closed")} == {"end of run"}
    assert not watched.of("stream.error")
    assert not watched.of("stream.resumed")


async def test_the_writer_keeps_its_pace_and_its_counts(watched: Watched) -> None:
    writer = watched.writer(rate=50)
    start = time.monotonic()
    await writer.start()
    await watched.until(lambda: writer.counters.ok >= 50, "50 writes")
    took = time.monotonic() - start
    await writer.stop()
    assert took >= 0.9
    assert writer.counters.in_flight == 0
    for key in KEYS:
        sequence = [one["seq"] for one in watched.of("write.invoked", key=key)]
        assert sequence == list(range(1, len(sequence) + 1))
    assert {one.kind for one in watched.history} == {"write.invoked", "write.ok"}


async def test_a_write_that_cannot_be_is_failed_and_a_lost_answer_is_unknown(watched: Watched) -> None:
    writer = watched.writer(rate=20, documents=[Document("nobody", "rs0", {"_id": "nobody"})])
    await writer.start()
    await watched.until(lambda: bool(watched.of("write.failed")), "a failed write")
    await writer.stop()
    assert watched.of("write.failed")[0]["error"] == "matched 0"

    mine = {"failCommands": ["update"], "closeConnection": True, "appName": f"mongofault {watched.run} writer"[:128]}
    async with fail_point(watched.cluster, "failCommand", "alwaysOn", mine):
        writer = watched.writer()
        await writer.start()
        await watched.until(lambda: len(watched.of("write.unknown")) >= 3, "unknown writes")
        await writer.stop()
    assert not watched.of("write.ok")
    assert all(one["code"] is None for one in watched.of("write.unknown"))


async def test_a_majority_that_does_not_come_in_time_is_unknown(watched: Watched) -> None:
    error = {
        "failCommands": ["update"],
        "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"},
        "appName": f"mongofault {watched.run} writer"[:128],
    }
    async with fail_point(watched.cluster, "failCommand", "alwaysOn", error):
        writer = watched.writer()
        await writer.start()
        await watched.until(lambda: bool(watched.of("write.unknown")), "an unknown write")
        await writer.stop()
    assert watched.of("write.unknown")[0]["code"] == 64


async def test_the_drivers_own_resume_is_seen_with_the_error_it_swallowed(watched: Watched) -> None:
    plan = watched.plan(1)
    async with streaming(watched, plan):
        await write_some(watched)
        once = {"failCommands": ["getMore"], "closeConnection": True, "appName": f"mongofault {plan.run} s1"[:128]}
        async with fail_point(watched.cluster, "failCommand", {"times": 1}, once):
            await watched.until(lambda: bool(watched.of("stream.resumed")), "a resume")
        await write_some(watched, 24)
        await watched.until(lambda: watched.exact("s1"), "all delivered")
    (resumed,) = watched.of("stream.resumed")
    assert resumed["by"] == "driver"
    assert "connection closed" in resumed["error"]
    assert resumed["token"] in {one["token"] for one in watched.history if one.kind in ("stream.event", "stream.empty")}
    assert not watched.of("stream.error")


async def test_a_stream_closed_by_the_server_goes_on_from_its_token(watched: Watched) -> None:
    """killCursors: pymongo raises once without a label, closes the stream, and would answer None ever after."""
    async with streaming(watched, watched.plan(1, read_preference="primary")), watched.cluster.client() as client:
        await write_some(watched)
        pipeline: list[dict[str, Any]] = [
            {"$currentOp": {"allUsers": True, "idleCursors": True}},
            {"$match": {"cursor.originatingCommand.comment.run": watched.run}},
        ]
        async with await client.admin.aggregate(pipeline) as ops:
            cursors = {Int64(op["cursor"]["cursorId"]) async for op in ops}
        database, _, collection = watched.namespace.partition(".")
        await client[database].command("killCursors", collection, cursors=list(cursors))
        await watched.until(lambda: bool(watched.of("stream.resumed", by="consumer")), "a resume")
        await write_some(watched, 24)
        await watched.until(lambda: watched.exact("s1"), "all delivered")
    (error,) = watched.of("stream.error")
    assert (error["code"], error["code_name"], error["labels"], error["where"]) == (237, "CursorKilled", [], "next")
    assert [one["resumed"] for one in watched.of("stream.opened")] == [False, True]
    assert watched.of("stream.closed")[0]["reason"] == "closed by the driver after an error"


async def test_after_an_invalidate_the_stream_goes_on_with_the_new_collection(watched: Watched) -> None:
    async with streaming(watched, watched.plan(1)), watched.cluster.client() as client:
        database, _, collection = watched.namespace.partition(".")
        await client[database].drop_collection(collection)
        await watched.until(lambda: len(watched.of("stream.opened")) == 2, "open again")
        await client[database][collection].insert_one({"_id": "a", "seq": 0})
        await watched.until(lambda: bool(watched.of("stream.event", op="insert")), "the insert")
    assert [one["op"] for one in watched.of("stream.event")] == ["drop", "invalidate", "insert"]


async def test_a_socket_timeout_below_the_await_is_swallowed_by_the_driver_and_seen_in_the_history(
    watched: Watched,
) -> None:
    """`try_next()` answers None and has opened a new cursor each time; nothing is raised (measured, pymongo 4.20)."""
    options = parse_driver_options(["socketTimeoutMS=300"])
    async with streaming(watched, watched.plan(1, max_await_time_ms=1000, driver_options=options)):
        await watched.until(lambda: len(watched.of("stream.resumed")) >= 2, "two timeouts")
        await write_some(watched)
        await watched.until(lambda: watched.exact("s1"), "all delivered")
    assert {one["by"] for one in watched.of("stream.resumed")} == {"driver"}
    assert "timed out (configured timeouts: socketTimeoutMS: 300.0ms" in watched.of("stream.resumed")[0]["error"]
    assert not watched.of("stream.error")


async def test_streams_that_cannot_be_opened_say_so_by_the_deadline(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    plan = StreamPlan("mongodb://127.0.0.1:1", "app.orders", 2, "r1", driver_options={"serverSelectionTimeoutMS": 200})
    streams = Streams(recorder, plan)
    with pytest.raises(StreamsNotOpen, match=r"2 of 2 streams not open within 1 s, first s1: ServerSelectionTimeout"):
        await streams.start(deadline=1)
    recorder.close()


async def test_streams_and_writer_stop_in_time_when_the_members_are_frozen(watched: Watched) -> None:
    members = data_members(watched.cluster)
    streams = Streams(watched.recorder, watched.plan(4, read_preference="secondary"))
    await streams.start(deadline=DEADLINE)
    writer = watched.writer()
    await writer.start()
    await watched.until(lambda: writer.counters.ok >= 5, "some writes")
    try:
        for member in members:
            member.freeze()
        await watched.until(lambda: writer.counters.in_flight == len(KEYS), "every document busy")
        start = time.monotonic()
        await writer.stop(deadline=1)
        writer_took = time.monotonic() - start
        await streams.stop(deadline=3)
        streams_took = time.monotonic() - start - writer_took
    finally:
        for member in members:
            member.thaw()
    assert writer_took < 5
    assert streams_took < 5
    assert len(watched.of("write.unknown")) == len(KEYS)
    assert writer.counters.in_flight == 0
    assert len(watched.of("stream.closed", reason="end of run")) == 4
