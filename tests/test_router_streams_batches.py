"""What a getMore on a change stream gives back, and when: batchSize, awaitData, the 16 MB limit, idle cursors."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clusters import ports
from clusters.local import LocalCluster
from clusters.shaping import connection_string
from clusters.wire.connection import CommandFailed, Connection
from router_parts import router_host, session
from router_streams_parts import cursors_of, until
from router_streams_raw import Raw, insert, numbers, raw_to, seconds, spread

pytestmark = pytest.mark.live

SLACK = 0.25
"""Seconds that a busy machine may add to a wait; a second too much, as by a shard's own wait, is more."""


@pytest.fixture(scope="module")
async def database(sharded: LocalCluster) -> AsyncIterator[str]:
    async with raw_to(sharded) as raw:
        await spread(raw)
        yield raw.database


@asynccontextmanager
async def connected(host: str | None, database: str) -> AsyncIterator[Raw]:
    assert host is not None
    connection = await Connection.open(host, deadline=30)
    try:
        yield Raw(connection, database)
    finally:
        connection.close()


@pytest.fixture
async def raw(sharded: LocalCluster, database: str) -> AsyncIterator[Raw]:
    async with connected(sharded.router, database) as raw:
        yield raw


async def test_no_batch_is_larger_than_asked_for(raw: Raw) -> None:
    stream = await raw.open(cursor={"batchSize": 2})
    await insert(raw, range(7))
    sizes: list[int] = []
    found: list[int] = []
    async with asyncio.timeout(30):
        while len(found) < 7:
            batch = await stream.get_more(batchSize=3)
            if batch:
                # Resuming from a full batch's token is exact too.
                resumed = await raw.open({"resumeAfter": stream.token})
                found += numbers(batch)
                rest = 7 - len(found)
                assert numbers(await resumed.read(rest)) == list(range(len(found), 7))
                sizes.append(len(batch))
    assert found == list(range(7))
    assert max(sizes) <= 3


@pytest.mark.parametrize(("size", "first"), [(0, 1000), (None, 2000)])
async def test_a_batch_size_of_zero_or_none_is_no_limit(raw: Raw, size: int | None, first: int) -> None:
    fields: dict[str, Any] = {} if size is None else {"batchSize": size}
    stream = await raw.open(cursor=fields)
    assert stream.first == []
    documents = [{"_id": n, "region": n % 2 * 2 - 1} for n in range(first, first + 120)]
    await raw.command({"insert": "orders", "documents": documents, "writeConcern": {"w": "majority"}})
    after = await raw.open()
    await after.idle_token()  # both shards are past all of it, so that nothing is held back
    found: list[int] = []
    batches = 0
    async with asyncio.timeout(30):
        while len(found) < 120:
            batch = await stream.get_more(**fields)
            found += numbers(batch)
            batches += bool(batch)
    assert sorted(found) == [one["_id"] for one in documents]
    assert batches <= 3


async def test_a_reply_keeps_within_16_megabytes(raw: Raw) -> None:
    stream = await raw.open()
    await insert(raw, range(200, 206), text="x" * 6_000_000)
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < 6:
            batch = await stream.get_more()
            assert len(batch) <= 2
            found += numbers(batch)
    assert found == list(range(200, 206))


@pytest.mark.parametrize("wait", [1, 50, 400, 1500])
async def test_an_empty_batch_comes_when_the_time_has_passed(raw: Raw, wait: int) -> None:
    stream = await raw.open()
    taken = []
    for _ in range(3):
        passed, batch = await seconds(stream.get_more(maxTimeMS=wait))
        assert batch == []
        taken.append(passed)
    assert min(taken) >= wait / 1000
    assert min(taken) < wait / 1000 + SLACK


async def test_without_a_time_it_is_a_second(raw: Raw) -> None:
    stream = await raw.open()
    command = {"getMore": stream.cursor_id, "collection": "orders"}
    passed, reply = await seconds(raw.command(command))
    assert reply["cursor"]["nextBatch"] == []
    assert 1 <= passed < 1 + 2 * SLACK


async def test_an_event_that_can_be_delivered_is_not_waited_with(raw: Raw, sharded: LocalCluster) -> None:
    stream = await raw.open()
    async with connected(sharded.router, raw.database) as writer:
        waiting = asyncio.create_task(seconds(stream.get_more(maxTimeMS=20_000)))
        # The first one can go as soon as the other shard has something later.
        await insert(writer, [300, 301])
        passed, batch = await waiting
    assert numbers(batch)[0] == 300
    assert passed < 5


@pytest.mark.slow
async def test_resuming_from_the_token_of_each_empty_batch_is_exact(raw: Raw) -> None:
    stream = await raw.open()
    tokens = []
    for n in range(400, 406):
        await insert(raw, [n])
        await stream.read(1)
        tokens.append(await stream.idle_token())
    for index, token in enumerate(tokens[:-1]):
        resumed = await raw.open({"resumeAfter": token})
        rest = list(range(401 + index, 406))
        assert numbers(await resumed.read(len(rest))) == rest


async def test_the_comment_of_a_get_more_goes_with_the_shards_get_mores(raw: Raw, sharded: LocalCluster) -> None:
    stream = await raw.open(comment="of the aggregate")
    async with connected(sharded.router, raw.database) as watcher:
        for comment, fields in (("of the aggregate", {}), ("its own", {"comment": "its own"})):
            waiting = asyncio.create_task(stream.get_more(maxTimeMS=2000, **fields))

            async def seen(comment: str = comment) -> bool:
                pipeline = [
                    {"$currentOp": {"allUsers": True}},
                    {"$match": {"op": "getmore", "command.collection": "orders", "command.comment": comment}},
                ]
                reply = await watcher.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, "admin")
                return len({one.get("shard") for one in reply["cursor"]["firstBatch"]}) >= 2

            await until(seen, f"getMores on both shards with the comment {comment!r}")
            await waiting


@asynccontextmanager
async def another_router(cluster: LocalCluster, *arguments: str) -> AsyncIterator[Raw]:
    hosts = {member.name: member.host for member in cluster.members.values()}
    (port,) = ports.choose(1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clusters.router", "--listen", f"127.0.0.1:{port}"),
        *("--configdb", connection_string(cluster.topology, hosts), "--router-host", router_host(cluster).host),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None and await process.stdout.readline() == b"ready\n"
        async with connected(f"127.0.0.1:{port}", "idle") as raw:
            yield raw
    finally:
        process.terminate()
        await process.wait()


async def test_a_stream_nobody_reads_is_killed_and_so_are_its_cursors_on_the_shards(sharded: LocalCluster) -> None:
    timeout = 3.0
    async with (
        another_router(sharded, "--cursor-timeout", str(timeout), "--session-timeout", "600") as raw,
        connected(raw.connection.host, raw.database) as reading,
    ):
        run = f"idle {time.monotonic()}"
        lsid = session()
        within = await raw.open(lsid=lsid)
        read = await reading.open()
        left = await raw.open(comment={"run": run})
        began = time.monotonic()
        done = asyncio.Event()

        async def keep_reading() -> None:
            while not done.is_set():
                await read.get_more()

        async with asyncio.TaskGroup() as group:
            group.create_task(keep_reading())

            async def killed() -> bool:
                return not await cursors_of(sharded, run)

            await until(killed, "the cursors of the idle stream are gone")
            assert time.monotonic() - began > timeout - 0.5
            done.set()
        with pytest.raises(CommandFailed) as gone:
            await left.get_more()
        assert gone.value.code == 43
        # One in a session lives as long as sessions do.
        await within.get_more(lsid=lsid)


async def test_a_stream_in_a_session_ends_when_the_session_would(sharded: LocalCluster) -> None:
    async with another_router(sharded, "--session-timeout", "0.5") as raw:
        run, lsid = f"session {time.monotonic()}", session()
        stream = await raw.open(lsid=lsid, comment={"run": run})

        async def killed() -> bool:
            return not await cursors_of(sharded, run)

        await until(killed, "the cursors of the session's stream are gone")
        with pytest.raises(CommandFailed) as refused:
            await stream.get_more(lsid=lsid)
        assert refused.value.code == 43
