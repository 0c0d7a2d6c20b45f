"""The router's monitor against real members: discovery, choice, members that freeze and thaw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from clusters.cluster import of_set, primary_of
from clusters.local import LocalCluster
from clusters.router import monitor as module
from clusters.router.errors import RouterError
from clusters.router.monitor import Monitor
from router_streams_parts import until

pytestmark = pytest.mark.live

SHARD = "shard0"


@asynccontextmanager
async def watching(cluster: LocalCluster, seed: int = 0) -> AsyncIterator[Monitor]:
    """A monitor that was told one secondary of shard0, no more."""
    primary = await primary_of(cluster, SHARD)
    monitor = Monitor(seed=seed)
    await monitor.start()
    monitor.watch_set(SHARD, [next(one.host for one in of_set(cluster, SHARD) if one.host != primary.host)])
    try:
        yield monitor
    finally:
        await monitor.stop()


async def secondaries(monitor: Monitor) -> set[str]:
    return {await monitor.select(SHARD, {"mode": "secondary"}, deadline=5) for _ in range(40)}


async def test_one_member_is_enough_to_find_the_whole_set_and_its_primary(sharded: LocalCluster) -> None:
    async with watching(sharded) as monitor:
        assert await monitor.primary(SHARD, deadline=5) == (await primary_of(sharded, SHARD)).host
        assert list(monitor.members(SHARD)) == sorted(one.host for one in of_set(sharded, SHARD))
        assert monitor.cluster_time() is not None


async def test_what_the_primary_does_not_name_is_no_member_whoever_else_names_it(sharded: LocalCluster) -> None:
    async with watching(sharded) as monitor:
        await monitor.primary(SHARD, deadline=5)
        known = monitor.members(SHARD)
        monitor.watch_set(SHARD, ["127.0.0.1:1"])  # as config.shards does of a member that was hidden meanwhile
        assert monitor.members(SHARD) == known


async def test_reads_spread_over_the_secondaries_and_the_seed_fixes_how(sharded: LocalCluster) -> None:
    choices = []
    for seed in (1, 1, 2):
        async with watching(sharded, seed) as monitor:
            await until(lambda: len(monitor._candidates(SHARD)) == 3, "all members are known")
            choices.append([await monitor.select(SHARD, {"mode": "secondary"}, deadline=5) for _ in range(20)])
    primary = (await primary_of(sharded, SHARD)).host
    assert set(choices[0]) == {one.host for one in of_set(sharded, SHARD)} - {primary}
    assert choices[0] == choices[1] != choices[2]


async def test_a_read_preference_nobody_matches_ends_at_its_deadline_and_says_who_is_there(
    sharded: LocalCluster,
) -> None:
    async with watching(sharded) as monitor:
        primary = await monitor.primary(SHARD, deadline=5)
        started = time.monotonic()
        with pytest.raises(RouterError) as failed:
            await monitor.select(SHARD, {"mode": "nearest", "tags": [{"dc": "moon"}]}, deadline=0.3)
    assert 0.25 < time.monotonic() - started < 2
    assert failed.value.code == 133
    assert f"{primary} primary" in str(failed.value)
    assert "{mode: nearest, tags: [{dc: moon}]}" in str(failed.value)
    assert "\n" not in str(failed.value)


async def test_a_frozen_member_is_chosen_until_its_hello_is_overdue_and_again_once_it_thaws(
    sharded: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AWAIT", 0.5)
    monkeypatch.setattr(module, "ANSWER", 0.5)
    async with watching(sharded) as monitor:
        await until(lambda: len(monitor._candidates(SHARD)) == 3, "all members are known")
        primary = await monitor.primary(SHARD, deadline=5)
        frozen = next(one for one in of_set(sharded, SHARD) if one.host != primary)
        frozen.freeze()
        try:
            assert frozen.host in await secondaries(monitor)
            started = time.monotonic()
            await until(lambda: len(monitor._candidates(SHARD)) == 2, "the frozen member is dropped", deadline=5)
            assert time.monotonic() - started < 3
            assert frozen.host not in await secondaries(monitor)
            assert frozen.host in monitor.members(SHARD)
        finally:
            frozen.thaw()
        await until(lambda: len(monitor._candidates(SHARD)) == 3, "the thawed member is back", deadline=5)


async def test_a_member_somebody_lost_a_connection_to_is_asked_again_at_once(sharded: LocalCluster) -> None:
    async with watching(sharded) as monitor:
        host = await monitor.primary(SHARD, deadline=5)
        monitor.note_failure(host)
        with pytest.raises(RouterError):
            await monitor.primary(SHARD, deadline=0)
        async with asyncio.timeout(2):
            assert await monitor.primary(SHARD, deadline=2) == host
