"""Faults in the network of a proxied set: who is struck is struck, who is not is spared, and both are well after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import faults
from clusters import local
from clusters.cluster import primary_of
from clusters.guard import Ledger
from clusters.local import LocalCluster, OwnCluster
from clusters.topology import single_replica_set
from clusters.wire.connection import ConnectionLost, DeadlinePassed
from faults.base import Evidence, Injection, Site, Unproven
from faults.network import DRIVER, NO_ANSWER, Probe, in_the_network
from faults.options import parse
from harness import stage

pytestmark = pytest.mark.live

TARGET, OTHER = "rs0-2", "rs0-1"


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[OwnCluster]:
    one = await local.bring_up(single_replica_set(3), "tests-network", proxied=True)
    try:
        yield one
    finally:
        await one.down()


def injection(cluster: LocalCluster, path: Path, name: str, *options: str, target: str = TARGET) -> Injection:
    kind = faults.by_name(name)
    fault = kind(Site(cluster, cluster.members[target]), parse(name, kind.options, options))
    return Injection(fault, Ledger.create(path / "ledger"), guarded=lambda: True)


@asynccontextmanager
async def injected(cluster: LocalCluster, path: Path, name: str, *options: str) -> AsyncIterator[Evidence]:
    one = injection(cluster, path, name, *options)
    assert await one.fault.available() is None
    try:
        evidence = await one.inject()
        assert await one.fault.active()
        yield evidence
    finally:
        await one.heal()
        assert not await one.fault.active()
        await stage.recovered(cluster)


@asynccontextmanager
async def asking(cluster: LocalCluster, source: str = DRIVER, command: str = "") -> AsyncIterator[Probe]:
    one = Probe(cluster, cluster.members[TARGET], source, command)
    await one.connect()
    try:
        yield one
    finally:
        one.close()


def test_every_fault_in_the_network_is_known_as_one() -> None:
    found = {name for name in faults.names() if in_the_network(name)}
    assert found == {
        *("bandwidth", "blackhole", "cut", "half-open", "isolate-primary"),
        *("latency", "partition", "refuse", "swallow"),
    }


async def test_without_a_fault_a_proxied_cluster_is_like_any_other(cluster: OwnCluster) -> None:
    assert cluster.proxy is not None
    async with cluster.client() as client:
        assert len(client.nodes | {await client.primary}) >= 1
        await client.app.orders.insert_one({"_id": 1})
        hosts = {one["name"] for one in (await client.admin.command("replSetGetStatus"))["members"]}
    assert hosts == {member.host for member in cluster.members.values()}
    assert not hosts & {member.listens for member in cluster.members.values()}


@pytest.mark.parametrize("direction", ["both", "to", "from"])
async def test_latency_makes_answers_late_by_as_much(cluster: OwnCluster, tmp_path: Path, direction: str) -> None:
    async with asking(cluster) as probe, injected(cluster, tmp_path, "latency", "ms=150", f"direction={direction}"):
        took = await probe.ask()
    assert (0.3 if direction == "both" else 0.15) <= took < 3


async def test_bandwidth_lets_no_more_pass(cluster: OwnCluster, tmp_path: Path) -> None:
    async with asking(cluster) as probe, injected(cluster, tmp_path, "bandwidth", "bytes_per_second=50000"):
        assert await probe.ask(30, comment="x" * 50_000) > 0.5
    async with asking(cluster) as probe:
        assert await probe.ask(30, comment="x" * 50_000) < 0.5


async def test_a_blackhole_holds_everything_and_lets_it_go_at_the_heal(cluster: OwnCluster, tmp_path: Path) -> None:
    async with asking(cluster) as probe:
        async with injected(cluster, tmp_path, "blackhole"):
            waiting = asyncio.create_task(probe.ask(60))
            done, _pending = await asyncio.wait([waiting], timeout=NO_ANSWER)
            assert not done
        assert await waiting > NO_ANSWER


async def test_what_is_swallowed_has_no_answer_and_all_else_has(cluster: OwnCluster, tmp_path: Path) -> None:
    """The picture of production: one command of one member, while everybody finds its target healthy."""
    options = (f"source={OTHER}", "commands=aggregate")
    async with injected(cluster, tmp_path, "swallow", *options) as evidence:
        assert evidence.fields["messages"] >= 1
        async with asking(cluster, OTHER, "find") as probe:
            assert not await probe.silent()
        async with asking(cluster, "rs0-0", "aggregate") as probe:
            assert not await probe.silent()
        async with asking(cluster, OTHER, "aggregate") as probe:
            assert await probe.silent()
        async with cluster.members["rs0-0"].client() as client:
            states = (await client.admin.command("replSetGetStatus"))["members"]
        assert {one["name"]: one["health"] for one in states}[cluster.members[TARGET].host] == 1


async def test_half_open_forgets_the_connections_of_now_alone(cluster: OwnCluster, tmp_path: Path) -> None:
    async with asking(cluster) as old:
        async with injected(cluster, tmp_path, "half-open"), asking(cluster) as new:
            assert await old.silent()
            assert not await new.silent()
        with pytest.raises(ConnectionLost):
            await old.ask()


@pytest.mark.parametrize(("options", "struck"), [((), DRIVER), (("commands=find", f"source={OTHER}"), OTHER)])
async def test_what_is_cut_breaks_and_new_connections_work(
    cluster: OwnCluster, tmp_path: Path, options: tuple[str, ...], struck: str
) -> None:
    async with asking(cluster, struck, "find" if options else "") as probe:
        async with injected(cluster, tmp_path, "cut", *options):
            with pytest.raises(ConnectionLost):
                await probe.ask()
            async with asking(cluster, DRIVER, "find") as another:
                assert await another.ask() < NO_ANSWER
        await probe.connect()
        assert await probe.ask() < NO_ANSWER


async def test_refused_are_new_connections_alone(cluster: OwnCluster, tmp_path: Path) -> None:
    async with asking(cluster) as old, injected(cluster, tmp_path, "refuse", "source=driver"):
        assert not await old.silent()
        with pytest.raises(ConnectionLost):
            async with asking(cluster):
                pass
        async with asking(cluster, OTHER) as member:
            assert not await member.silent()


@pytest.mark.parametrize("way", ["both", "in", "out"])
async def test_a_partition_separates_two_sides_and_nobody_else(cluster: OwnCluster, tmp_path: Path, way: str) -> None:
    async with injected(cluster, tmp_path, "partition", f"against={OTHER}", f"way={way}"):
        assert await reaches(cluster, DRIVER, TARGET)
        assert await reaches(cluster, "rs0-0", TARGET)
        assert await reaches(cluster, OTHER, TARGET) == (way == "out")
        assert await reaches(cluster, TARGET, OTHER) == (way == "in")


async def reaches(cluster: LocalCluster, source: str, target: str) -> bool:
    """Whether one who says to be `source` gets through to `target`."""
    probe = Probe(cluster, cluster.members[target], source)
    try:
        async with asyncio.timeout(NO_ANSWER):
            await probe.connect()
            return not await probe.silent()
    except (TimeoutError, ConnectionLost, DeadlinePassed):
        return False
    finally:
        probe.close()


async def test_only_a_primary_can_be_an_isolated_one(cluster: OwnCluster, tmp_path: Path) -> None:
    primary = await primary_of(cluster, "rs0")
    other = next(one for one in cluster.members.values() if one is not primary)
    fault = injection(cluster, tmp_path, "isolate-primary", target=other.name).fault
    assert await fault.available() == f"{other.name} is not the primary of rs0"


@pytest.mark.slow
async def test_an_isolated_primary_is_replaced_and_takes_its_place_again(cluster: OwnCluster, tmp_path: Path) -> None:
    primary = await primary_of(cluster, "rs0")
    one = injection(cluster, tmp_path, "isolate-primary", target=primary.name)
    assert await one.fault.available() is None
    try:
        evidence = await one.inject()
        assert "says that it is the writable primary" in evidence.statement
    finally:
        await one.heal()
    await stage.recovered(cluster)


FORMS = ["latency", "bandwidth", "blackhole", "swallow", "half-open", "cut", "refuse", "partition"]


@pytest.mark.parametrize("name", FORMS)
async def test_the_undo_records_alone_heal_it(cluster: OwnCluster, tmp_path: Path, name: str) -> None:
    one = injection(cluster, tmp_path, name)
    await one.inject()
    for record in Ledger.load(tmp_path / "ledger").open_records():
        for _twice in range(2):
            await asyncio.to_thread(record.undo.undo, 5.0)
    assert not await one.fault.active()
    await one.heal()
    await stage.recovered(cluster)


@pytest.mark.parametrize("name", FORMS)
async def test_a_rule_that_is_not_in_force_is_not_proven(
    cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def nothing(*_: Any) -> str:
        return ""

    monkeypatch.setattr("clusters.wire.proxy.client.ProxyControl.add", nothing)
    one = injection(cluster, tmp_path, name)
    with pytest.raises(Unproven):
        await one.inject()
    await one.heal()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("blackhole", ("source=nobody",), "source=nobody: expected one of rs0-0, rs0-1, rs0-2, router, driver or app:"),
        ("partition", ("against=driver", "way=out"), "sends nothing to driver"),
    ],
)
async def test_what_cannot_be_is_said_in_one_line(
    cluster: OwnCluster, tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    assert said in str(await injection(cluster, tmp_path, name, *options).fault.available())


async def test_without_a_proxy_nothing_in_the_network_can_be_broken(replica_set: LocalCluster, tmp_path: Path) -> None:
    fault = injection(replica_set, tmp_path, "cut").fault
    assert await fault.available() == f"no proxy stands before {TARGET}: bring the cluster up with --proxied"
