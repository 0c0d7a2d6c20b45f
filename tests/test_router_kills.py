"""kill -9 of the router, its host, a primary, a stream's member, the config node, under load: what may clients notice?

Numbered writes, reads and streams: nothing, for the driver's own retries absorb it. Writes without a number: what a
mongos would say of a broken connection. In any case no acknowledged write is lost, and every stream is exact.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import CursorNotFound

from clusters import local, ports
from clusters.cluster import primary_of
from clusters.errors import ClusterError
from clusters.local import OwnCluster
from clusters.member import LocalProcess
from clusters.router.errors import RESUMABLE
from clusters.router.router import Router, Settings
from clusters.topology import Settings as ServerSettings
from clusters.topology import sharded_cluster
from clusters.wire.connection import CommandFailed, Connection
from router_kills_parts import Load, load
from router_parts import orders, router_host, to_router
from router_streams_parts import cursors_of

pytestmark = pytest.mark.live

BROKEN = {None, 6, 91, 189, 10107, 11600, 11602, 13435}
"""What a mongos says of a write without a number whose shard or connection was lost: the end, HostUnreachable,
ShutdownInProgress, PrimarySteppedDown, NotWritablePrimary, InterruptedAtShutdown, InterruptedDueToReplStateChange,
NotPrimaryNoSecondaryOk."""

ELECTION_DEADLINE = 30.0

Choice = Callable[[OwnCluster, Load], Awaitable[LocalProcess]]


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[OwnCluster]:
    """With elections after 2 s."""
    settings = ServerSettings(heartbeat_ms=500, election_timeout_ms=2000)
    cluster = await local.bring_up(sharded_cluster(2, 3, settings=settings), "tests-kills")
    try:
        yield cluster
    finally:
        await cluster.down()


async def primary_elected(cluster: OwnCluster, set_name: str) -> LocalProcess:
    """Once there is one."""
    async with asyncio.timeout(ELECTION_DEADLINE):
        while True:
            try:
                return cluster.members[(await primary_of(cluster, set_name)).name]
            except ClusterError:
                await asyncio.sleep(0.05)


async def router(cluster: OwnCluster, _load: Load) -> LocalProcess:
    assert cluster.router_process is not None
    return cluster.router_process


async def host(cluster: OwnCluster, _load: Load) -> LocalProcess:
    return router_host(cluster)


async def config(cluster: OwnCluster, _load: Load) -> LocalProcess:
    return cluster.members["config-0"]


async def primary(cluster: OwnCluster, _load: Load) -> LocalProcess:
    return await primary_elected(cluster, "shard0")


async def member_of_a_stream(cluster: OwnCluster, load: Load) -> LocalProcess:
    """A secondary on which a stream has a cursor."""
    on = {member.name for member, secondary, _ in await cursors_of(cluster, load.observed.run) if secondary}
    return cluster.members[min(on)]


EVERYBODY: list[Choice] = [router, host, config, primary, member_of_a_stream]
VICTIMS = (
    router,
    pytest.param(host, marks=[pytest.mark.slow, pytest.mark.matrix]),
    pytest.param(primary, marks=[pytest.mark.slow, pytest.mark.matrix]),
    pytest.param(config, marks=pytest.mark.slow),
    pytest.param(member_of_a_stream, marks=pytest.mark.slow),
)


async def kill_and_start(load: Load, victim: LocalProcess) -> None:
    """Dead for as long as the load can do without it; then it serves again."""
    since = load.progress()
    await victim.kill()
    alone = victim is not load.cluster.router_process and victim is not router_host(load.cluster)
    if alone:
        await load.moving(f"without {victim.name}", since)
    await victim.start()
    await load.moving(f"with {victim.name} back")


def unexpected(load: Load, *, router_killed: bool = False) -> list[object]:
    """What clients were told and ought not to have been.

    Where the router itself was killed, what was in flight there may be told that its connection broke: of a process
    that dies the kernel closes the newest socket first and the listening one last (measured: 15 times of 20 a client
    that saw its connection break connected once more), so that a driver's only retry may be broken as well.
    """
    streams = [one.fields for one in load.observed.of("stream.error")]
    writes = [one.fields for kind in ("write.failed", "write.unknown") for one in load.observed.of(kind)]
    told = [one for one in load.told if one.op != "insert" or one.code not in BROKEN]
    if router_killed:
        streams, of_streams = broken(streams, "stream")
        writes, of_documents = broken(writes, "key")
        told, of_ops = [one for one in told if one.code is not None], [one.op for one in told if one.code is None]
        for each in (of_streams, of_documents, of_ops):
            assert len(each) == len(set(each)), f"in flight was one at a time: {each}"
    return [*streams, *writes, *told]


def broken(errors: list[dict[str, Any]], of: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Errors but for those of connections that broke; and whose those are."""
    return [one for one in errors if one["code"] is not None], [one[of] for one in errors if one["code"] is None]


@pytest.mark.parametrize("choose", VICTIMS)
async def test_a_kill_under_load_loses_nothing_and_is_absorbed_by_the_drivers_retries(
    cluster: OwnCluster, tmp_path: Path, choose: Choice
) -> None:
    async with load(cluster, tmp_path) as under_load:
        await kill_and_start(under_load, await choose(cluster, under_load))
    assert unexpected(under_load, router_killed=choose is router) == []
    # In flight was one at most, and no mongos adds RetryableWriteError to what a shard or a lost connection did.
    inserts = [one for one in under_load.told if one.op == "insert"]
    assert len(inserts) <= 1, inserts
    assert all(one.labels == () for one in inserts)
    surfaced = {one["stream"] for one in under_load.observed.of("stream.error")}
    for one in under_load.observed.of("stream.resumed"):
        if one["by"] == "consumer":
            assert one["stream"] in surfaced
        else:
            assert one["code"] is None or RESUMABLE in one["labels"] or one["code"] == 43


@pytest.mark.slow
async def test_a_primary_that_steps_down_under_load_costs_no_numbered_write(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    async with load(cluster, tmp_path) as under_load:
        for shard in ("shard0", "shard1"):
            since = under_load.progress()
            old = await primary_elected(cluster, shard)
            connection = await Connection.open(old.host, deadline=ELECTION_DEADLINE)
            step_down = {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 2, "force": True}
            await connection.command("admin", step_down, deadline=ELECTION_DEADLINE)
            connection.close()
            await under_load.moving(f"after {old.name} stepped down", since)
    assert unexpected(under_load) == []
    assert all(one.labels == () for one in under_load.told)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.matrix) for one in (1, 2))])
async def test_kills_one_upon_the_other_lose_nothing(cluster: OwnCluster, tmp_path: Path, seed: int) -> None:
    """Here a driver's one retry may meet the next kill: then the client is told, as behind a mongos."""
    choice = random.Random(seed)
    async with load(cluster, tmp_path) as under_load:
        for _ in range(4):
            chosen = {await one(cluster, under_load) for one in choice.sample(EVERYBODY, 2)}
            await asyncio.gather(*(one.kill() for one in chosen))
            await asyncio.gather(*(one.start() for one in chosen))
            await under_load.moving(f"after the kill of {', '.join(one.name for one in chosen)}")
    codes = {one.code for one in under_load.told} | {one["code"] for one in under_load.observed.of("stream.error")}
    assert codes <= BROKEN | {43, 133}


async def test_cursors_go_with_the_router_and_tokens_and_sessions_live_on(cluster: OwnCluster) -> None:
    assert cluster.router_process is not None
    async with orders(cluster) as collection:
        await collection.insert_many([{"_id": n, "region": n % 2 * 2 - 1} for n in range(20)])
        database, name = collection.database.name, collection.name
        before = await to_router(cluster)
        cursors = []
        for command in (
            {"find": name, "batchSize": 2},
            {"aggregate": name, "pipeline": [{"$changeStream": {}}], "cursor": {}},
        ):
            cursors.append((await before.command(database, command, deadline=30))["cursor"])
        reading = collection.find(batch_size=2)
        await reading.next()
        async with collection.database.client.start_session() as session, await collection.watch() as stream:
            await collection.insert_one({"_id": 20, "region": 1}, session=session)
            await cluster.router_process.kill()
            await cluster.router_process.start()
            assert await collection.find_one({"_id": 20}, session=session) is not None
            assert (await stream.next())["documentKey"]["_id"] == 20
            token = stream.resume_token
        with pytest.raises(CursorNotFound):  # as after the restart of a mongos: no driver can repeat a getMore
            await reading.to_list()
        after = await to_router(cluster)
        for cursor in cursors:
            more = {"getMore": cursor["id"], "collection": name}
            with pytest.raises(CommandFailed, match="not found") as gone:
                await after.command(database, more, deadline=30)
            assert gone.value.code == 43
        status = await after.command("admin", {"mongofaultRouterStatus": 1}, deadline=30)
        before.close()
        after.close()
        await collection.insert_one({"_id": 21, "region": -1})
        async with (
            another_router(status) as uri,
            AsyncMongoClient[dict[str, Any]](uri) as client,
            await client[database][name].watch(resume_after=token) as elsewhere,
        ):
            assert (await elsewhere.next())["documentKey"]["_id"] == 21


@asynccontextmanager
async def another_router(status: Mapping[str, Any]) -> AsyncIterator[str]:
    """The uri of one beside the cluster's, in this process."""
    (port,) = ports.choose(1)
    second = Router(Settings(f"127.0.0.1:{port}", status["configdb"], status["routerHost"], seed=7))
    await second.start()
    try:
        yield f"mongodb://127.0.0.1:{port}/"
    finally:
        await second.close()


@pytest.mark.slow
async def test_a_synchronous_client_goes_on_over_a_restart_of_the_router(cluster: OwnCluster) -> None:
    assert cluster.router_process is not None
    async with orders(cluster) as collection:
        opened, restarted = threading.Event(), threading.Event()

        def watch() -> list[Any]:
            with MongoClient[dict[str, Any]](cluster.uri) as client:
                mine = client[collection.database.name][collection.name]
                with mine.watch() as stream:
                    mine.insert_one({"_id": 1, "region": 1})
                    seen = [stream.next()]
                    opened.set()
                    assert restarted.wait(60)
                    mine.insert_one({"_id": 2, "region": -1})
                    seen.append(stream.next())
                    return [one["documentKey"]["_id"] for one in seen]

        watching = asyncio.create_task(asyncio.to_thread(watch))
        assert await asyncio.to_thread(opened.wait, 60)
        await cluster.router_process.kill()
        await cluster.router_process.start()
        restarted.set()
        assert await watching == [1, 2]
