"""Consumers and writer on a replica set of real servers: nothing lost, nothing doubled, every outcome recorded."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64

from clusters.cluster import data_members
from clusters.local import LocalCluster
from harness.drivers.clients import Driver, parse_driver_options
from harness.drivers.streams import StreamPlan, Streams, StreamsNotOpen
from harness.drivers.writers import Document
from harness.history import END_OF_RUN, Recorder
from observed import DEADLINE, Observed, fail_point, streaming, write_some

pytestmark = pytest.mark.live

both_drivers = pytest.mark.parametrize("driver", ["pymongo", "motor"])

KEYS = ("a", "b", "c")
DOCUMENTS = [Document(key, "rs0", {"_id": key}) for key in KEYS]


@pytest.fixture
async def observed(
    replica_set: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Observed]:
    collection = request.node.name.split("[")[0][-60:]
    observed = Observed(replica_set, f"drivers.{collection}", tmp_path / "history.jsonl", DOCUMENTS)
    async with replica_set.client() as client:
        await client.drivers[collection].insert_many([{"_id": key, "seq": 0} for key in KEYS])
        try:
            yield observed
        finally:
            observed.recorder.close()
            await client.drivers.drop_collection(collection)


@both_drivers
@pytest.mark.parametrize("shared", [False, True], ids=["a client each", "one client"])
async def test_every_stream_delivers_every_write_once_and_in_order(
    observed: Observed, shared: bool, driver: Driver
) -> None:
    plan = observed.plan(3, read_preference="secondary", shared_client=shared, driver=driver)
    async with streaming(observed, plan):
        await write_some(observed, 30, driver=driver)
        await observed.until(lambda: all(observed.exact(name) for name in ("s1", "s2", "s3")), "all delivered")
        # An empty answer carries a token as well: it tells a healthy idle stream from one that waits.
        empties = len(observed.of("stream.empty"))
        await observed.until(lambda: len(observed.of("stream.empty")) > empties, "an empty answer")
    event = next(one for one in observed.of("stream.event") if one["op"] == "update")
    assert len(event["cluster_time"]) == 2
    assert observed.of("stream.empty")[-1]["token"].startswith("82")
    assert {one["reason"] for one in observed.of("stream.closed")} == {END_OF_RUN}
    assert not observed.of("stream.error")
    assert not observed.of("stream.resumed")


async def test_the_writer_keeps_its_pace_and_its_counts(observed: Observed) -> None:
    writer = observed.writer(rate=50)
    start = time.monotonic()
    await writer.start()
    await observed.until(lambda: writer.counters.ok >= 50, "50 writes")
    took = time.monotonic() - start
    await writer.stop()
    assert took >= 0.9
    assert writer.counters.in_flight == 0
    for key in KEYS:
        sequence = [one["seq"] for one in observed.of("write.invoked", key=key)]
        assert sequence == list(range(1, len(sequence) + 1))
    assert {one.kind for one in observed.history} == {"write.invoked", "write.ok"}


async def test_one_op_is_in_flight_per_document_and_different_documents_overlap(observed: Observed) -> None:
    mine = {"failCommands": ["update"], "blockConnection": True, "blockTimeMS": 150}
    async with fail_point(
        observed.cluster, "failCommand", "alwaysOn", {**mine, "appName": f"mongofault {observed.run} writer"[:128]}
    ):
        writer = observed.writer(rate=100)
        await writer.start()
        await observed.until(lambda: writer.counters.ok >= 9, "some writes")
        await writer.stop()
    steps = [1 if one.kind == "write.invoked" else -1 for one in observed.history]
    assert max(itertools.accumulate(steps)) == len(KEYS)
    assert writer.counters.skipped > 0
    for key in KEYS:
        kinds = [one.kind for one in observed.history if one["key"] == key]
        assert kinds == ["write.invoked", "write.ok"] * (len(kinds) // 2)


@both_drivers
async def test_a_write_that_cannot_be_is_failed_and_a_lost_answer_is_unknown(
    observed: Observed, driver: Driver
) -> None:
    writer = observed.writer(rate=20, documents=[Document("nobody", "rs0", {"_id": "nobody"})], driver=driver)
    await writer.start()
    await observed.until(lambda: bool(observed.of("write.failed")), "a failed write")
    await writer.stop()
    assert observed.of("write.failed")[0]["error"] == "matched 0"

    mine = {"failCommands": ["update"], "closeConnection": True, "appName": f"mongofault {observed.run} writer"[:128]}
    async with fail_point(observed.cluster, "failCommand", "alwaysOn", mine):
        writer = observed.writer(driver=driver)
        await writer.start()
        await observed.until(lambda: len(observed.of("write.unknown")) >= 3, "unknown writes")
        await writer.stop()
    assert not observed.of("write.ok")
    assert all(one["code"] is None for one in observed.of("write.unknown"))


async def test_a_majority_that_does_not_come_in_time_is_unknown(observed: Observed) -> None:
    error = {
        "failCommands": ["update"],
        "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"},
        "appName": f"mongofault {observed.run} writer"[:128],
    }
    async with fail_point(observed.cluster, "failCommand", "alwaysOn", error):
        writer = observed.writer()
        await writer.start()
        await observed.until(lambda: bool(observed.of("write.unknown")), "an unknown write")
        await writer.stop()
    assert observed.of("write.unknown")[0]["code"] == 64


@both_drivers
async def test_the_drivers_own_resume_is_seen_with_the_error_it_swallowed(observed: Observed, driver: Driver) -> None:
    plan = observed.plan(1, driver=driver)
    async with streaming(observed, plan):
        await write_some(observed)
        once = {"failCommands": ["getMore"], "closeConnection": True, "appName": f"mongofault {plan.run} s1"[:128]}
        async with fail_point(observed.cluster, "failCommand", {"times": 1}, once):
            await observed.until(lambda: bool(observed.of("stream.resumed")), "a resume")
        await write_some(observed, 24)
        await observed.until(lambda: observed.exact("s1"), "all delivered")
    (resumed,) = observed.of("stream.resumed")
    assert resumed["by"] == "driver"
    assert "connection closed" in resumed["error"]
    tokens = [one["token"] for one in observed.of("stream.event") + observed.of("stream.empty")]
    assert resumed["token"] in tokens
    assert not observed.of("stream.error")


@both_drivers
async def test_a_stream_closed_by_the_server_goes_on_from_its_token(observed: Observed, driver: Driver) -> None:
    """killCursors: either driver raises once without a label, closes the stream, and would answer None ever after."""
    plan = observed.plan(1, read_preference="primary", driver=driver)
    async with streaming(observed, plan), observed.cluster.client() as client:
        await write_some(observed)
        pipeline: list[dict[str, Any]] = [
            {"$currentOp": {"allUsers": True, "idleCursors": True}},
            {"$match": {"cursor.originatingCommand.comment.run": observed.run}},
        ]
        database, _, collection = observed.namespace.partition(".")
        async with asyncio.timeout(DEADLINE):
            killed: list[int] = []
            while not killed:  # between two getMores a cursor may be neither idle nor in an operation
                async with await client.admin.aggregate(pipeline) as ops:
                    cursors = [Int64(op["cursor"]["cursorId"]) async for op in ops]
                if cursors:
                    killed = (await client[database].command("killCursors", collection, cursors=cursors))[
                        "cursorsKilled"
                    ]
        await observed.until(lambda: bool(observed.of("stream.resumed", by="consumer")), "a resume")
        await write_some(observed, 24)
        await observed.until(lambda: observed.exact("s1"), "all delivered")
    (error,) = observed.of("stream.error")
    assert (error["code"], error["code_name"], error["labels"], error["where"]) == (237, "CursorKilled", [], "next")
    assert [one["resumed"] for one in observed.of("stream.opened")] == [False, True]
    assert observed.of("stream.closed")[0]["reason"] == "closed by the driver after an error"


@both_drivers
async def test_after_an_invalidate_the_stream_goes_on_with_the_new_collection(
    observed: Observed, driver: Driver
) -> None:
    async with streaming(observed, observed.plan(1, driver=driver)), observed.cluster.client() as client:
        database, _, collection = observed.namespace.partition(".")
        await client[database].drop_collection(collection)
        await observed.until(lambda: len(observed.of("stream.opened")) == 2, "open again")
        await client[database][collection].insert_one({"_id": "a", "seq": 0})
        await observed.until(lambda: bool(observed.of("stream.event", op="insert")), "the insert")
    assert [one["op"] for one in observed.of("stream.event")] == ["drop", "invalidate", "insert"]


async def test_a_socket_timeout_below_the_await_is_swallowed_by_the_driver_and_seen_in_the_history(
    observed: Observed,
) -> None:
    """`try_next()` answers None and has opened a new cursor each time; nothing is raised (measured, pymongo 4.20)."""
    options = parse_driver_options(["socketTimeoutMS=300"])
    async with streaming(observed, observed.plan(1, max_await_time_ms=1000, driver_options=options)):
        await observed.until(lambda: len(observed.of("stream.resumed")) >= 2, "two timeouts")
        await write_some(observed)
        await observed.until(lambda: observed.exact("s1"), "all delivered")
    assert {one["by"] for one in observed.of("stream.resumed")} == {"driver"}
    assert "timed out (configured timeouts: socketTimeoutMS: 300.0ms" in observed.of("stream.resumed")[0]["error"]
    assert not observed.of("stream.error")


async def test_streams_that_cannot_be_opened_say_so_by_the_deadline(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    plan = StreamPlan("mongodb://127.0.0.1:1", "app.orders", 2, "r1", driver_options={"serverSelectionTimeoutMS": 200})
    streams = Streams(recorder, plan)
    with pytest.raises(StreamsNotOpen, match=r"2 of 2 streams not open within 1 s, first s1: ServerSelectionTimeout"):
        await streams.start(deadline=1)
    recorder.close()


@both_drivers
async def test_streams_and_writer_stop_in_time_when_the_members_are_frozen(observed: Observed, driver: Driver) -> None:
    members = data_members(observed.cluster)
    streams = Streams(observed.recorder, observed.plan(4, read_preference="secondary", driver=driver))
    await streams.start(deadline=DEADLINE)
    writer = observed.writer(driver=driver)
    await writer.start()
    await observed.until(lambda: writer.counters.ok >= 5, "some writes")
    try:
        for member in members:
            member.freeze()
        await observed.until(lambda: writer.counters.in_flight == len(KEYS), "every document busy")
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
    # An answer may have been under way when its member was frozen; the others have none.
    assert observed.of("write.unknown")
    assert writer.counters.in_flight == 0
    assert len(observed.of("stream.closed", reason=END_OF_RUN)) == 4
