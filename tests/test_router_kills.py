"""kill -9 of the router, its host, a primary, a stream's member, the config node, under load: what may clients notice?

Numbered writes, reads and streams: nothing, for the driver's own retries absorb it. Writes without a number: what a
mongos would say of a broken connection. In any case no acknowledged write is lost, and every stream is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from clusters import local
from clusters.cluster import primary_of
from clusters.errors import ClusterError
from clusters.local import OwnCluster
from clusters.member import LocalProcess
from clusters.router.errors import RESUMABLE
from clusters.topology import Settings as ServerSettings
from clusters.topology import sharded_cluster
from router_kills_parts import Load, load
from router_parts import router_host
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


VICTIMS = (
    router,
    host,
    primary,
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


def unexpected(load: Load) -> list[object]:
    """What clients were told and ought not to have been."""
    streams = [one.fields for one in load.observed.of("stream.error")]
    writes = [one.fields for kind in ("write.failed", "write.unknown") for one in load.observed.of(kind)]
    return [*streams, *writes, *(one for one in load.told if one.op != "insert" or one.code not in BROKEN)]


@pytest.mark.parametrize("choose", VICTIMS)
async def test_a_kill_under_load_loses_nothing_and_is_absorbed_by_the_drivers_retries(
    cluster: OwnCluster, tmp_path: Path, choose: Choice
) -> None:
    async with load(cluster, tmp_path) as under_load:
        await kill_and_start(under_load, await choose(cluster, under_load))
    assert unexpected(under_load) == []
    # In flight was one at most, and no mongos adds RetryableWriteError to what a shard or a lost connection did.
    assert len(under_load.told) <= 1, under_load.told
    assert all(one.labels == () for one in under_load.told)
    for one in under_load.observed.of("stream.resumed"):
        assert one["by"] == "driver"
        assert one["code"] is None or RESUMABLE in one["labels"] or one["code"] == 43
