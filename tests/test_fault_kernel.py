"""What the kernel does to a member's container: seen by others than the fault, healed by it and from records alone."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import PyMongoError, WriteConcernError, WTimeoutError
from pymongo.write_concern import WriteConcern

import faults
from clusters import admin, providers
from clusters.cluster import primary_of
from clusters.compose import engine, netns
from clusters.compose.cluster import OwnComposeCluster
from clusters.compose.container import ContainerMember
from clusters.guard import Ledger
from clusters.member import LocalMember
from clusters.topology import Settings, single_replica_set
from faults import Site, Unproven
from faults.base import Evidence, Injection
from faults.cgroup import present_group
from faults.filtering import FilteringFault
from faults.options import parse
from faults.shaping import ShapingFault
from harness import stage

pytestmark = [pytest.mark.live, pytest.mark.docker]

TARGET = "rs0-2"
UNLIMITED = (1 << 63) - 4096
NETEM = ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
WORK = {
    "aggregate": "oplog.rs",
    "pipeline": [{"$limit": 1}, {"$project": {"sum": {"$sum": {"$range": [0, 400_000]}}}}],
    "cursor": {},
}


@pytest.fixture(scope="module")
async def cluster(docker_image: str) -> AsyncIterator[OwnComposeCluster]:
    settings = Settings(heartbeat_ms=500, election_timeout_ms=3000)
    topology = single_replica_set(3, settings=settings).with_member("rs0-0", priority=2)
    name = f"tests-{secrets.token_hex(3)}"
    one = await providers.bring_up(topology, name, provider="compose", image=docker_image)
    try:
        assert isinstance(one, OwnComposeCluster)
        yield one
    finally:
        await one.down()


def injection(cluster: Any, path: Path, form: str, target: str = TARGET) -> Injection:
    name, *options = form.split()
    kind = faults.by_name(name)
    fault = kind(Site(cluster, cluster.members[target]), parse(name, kind.options, options))
    return Injection(fault, Ledger.create(path / f"ledger-{secrets.token_hex(3)}"), guarded=lambda: True)


@asynccontextmanager
async def struck(cluster: OwnComposeCluster, path: Path, form: str, *targets: str) -> AsyncIterator[list[Evidence]]:
    """Injected, and healed from records alone, twice, before it heals itself."""
    blows = [injection(cluster, path, form, one) for one in targets or [TARGET]]
    assert [await one.fault.available() for one in blows] == [None] * len(blows)
    undos = [undo for one in blows for undo in one.fault.undo()]
    try:
        evidence = [await one.inject() for one in blows]
        assert all([await one.fault.active() for one in blows])
        yield evidence
        for _time in range(2):
            for undo in undos:
                await asyncio.to_thread(undo.undo, 20)
        assert not any([await one.fault.active() for one in blows])
    finally:
        for one in blows:
            await one.heal()
        await stage.recovered(cluster)


def member(cluster: OwnComposeCluster, name: str = TARGET) -> ContainerMember:
    return cluster.members[name]


def in_group(cluster: OwnComposeCluster, controller: str, first: str, second: str) -> str:
    """What the kernel says of the target's control group, of either version."""
    process = member(cluster).process
    assert process is not None
    version, path = present_group(process.pid, controller)
    return (path / (first if version == 1 else second)).read_text().strip()


async def write(cluster: OwnComposeCluster, members: int, deadline: float) -> None:
    async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
        concern = WriteConcern(members, wtimeout=int(deadline * 1000))
        await client.injured.get_collection("things", write_concern=concern).insert_one({})


async def answers(one: ContainerMember, size: int = 1, deadline: float = 5) -> float:
    """Seconds that it takes to send it so much. Raises PyMongoError where it takes longer than `deadline`."""
    wait = int(1000 * deadline)
    async with one.client(serverSelectionTimeoutMS=wait, socketTimeoutMS=wait) as client:
        await client.admin.command("ping")
        began = time.monotonic()
        await client.admin.command({"ping": 1, "comment": "x" * size})
        return time.monotonic() - began


async def test_a_container_has_no_more_of_a_cpu_than_its_share(cluster: OwnComposeCluster, tmp_path: Path) -> None:
    assert in_group(cluster, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] in ("-1", "max")
    async with struck(cluster, tmp_path, "cpu-limit share=0.1") as (evidence,):
        assert in_group(cluster, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "10000"
        assert evidence.fields["throttled"] >= 3
        async with member(cluster).client() as client:
            used, began = used_cpu(cluster), time.monotonic()
            while time.monotonic() < began + 1:
                await client.local.command({**WORK, "$readPreference": {"mode": "secondaryPreferred"}})
            assert (used_cpu(cluster) - used) / (time.monotonic() - began) < 0.2
    assert in_group(cluster, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] in ("-1", "max")


def used_cpu(cluster: OwnComposeCluster) -> float:
    """Seconds, of the target's first process."""
    process = member(cluster).process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_a_container_has_no_more_memory_than_the_limit_and_is_started_where_it_was_killed(
    cluster: OwnComposeCluster, tmp_path: Path
) -> None:
    before = member(cluster).process
    one = injection(cluster, tmp_path, "memory-limit room=4")
    assert await one.fault.available() is None
    try:
        evidence = await one.inject()
        assert evidence.fields["taken_back"] > 0
        limit = int(in_group(cluster, "memory", "memory.limit_in_bytes", "memory.max"))
        assert limit == pytest.approx(evidence.fields["limit"] * (1 << 20), rel=0.01)
        async with member(cluster).client(serverSelectionTimeoutMS=2000, socketTimeoutMS=5000) as client:
            with pytest.raises(PyMongoError):
                for size in range(100_000, 10_000_000, 400_000):
                    stages: list[dict[str, Any]] = [
                        {"$limit": 1},
                        {"$project": {"size": {"$size": {"$map": {"input": {"$range": [0, size]}, "in": "$$this"}}}}},
                    ]
                    await client.local.command({**WORK, "pipeline": stages, "$readPreference": {"mode": "nearest"}})
        await admin.until("killed for want of memory", _gone(cluster), deadline=10)
        assert await one.fault.active()
    finally:
        await one.heal()
        await stage.recovered(cluster)
    assert member(cluster).process != before
    assert int(in_group(cluster, "memory", "memory.limit_in_bytes", "memory.max").replace("max", str(UNLIMITED))) == (
        UNLIMITED
    )


def _gone(cluster: OwnComposeCluster) -> Any:
    async def gone() -> bool:
        return not member(cluster).running()

    return gone


async def test_less_memory_than_it_needs_is_refused(cluster: OwnComposeCluster, tmp_path: Path) -> None:
    said = await injection(cluster, tmp_path, "memory-limit megabytes=10").fault.available()
    assert said is not None
    assert "expected megabytes=" in said


async def test_two_sides_do_not_reach_each_other_and_the_larger_one_goes_on(
    cluster: OwnComposeCluster, tmp_path: Path
) -> None:
    assert (await primary_of(cluster, "rs0")).name == "rs0-0"
    async with struck(cluster, tmp_path, "partition against=rs0-0", "rs0-1", "rs0-2") as sides:
        assert all(sum(one.fields["dropped"]) > 0 for one in sides)
        await admin.until("another primary", _led_by_another(cluster), deadline=30)
        for one in cluster.members.values():
            assert await answers(one) < 5
    await admin.until("rs0-0 is the primary", _led_by(cluster, "rs0-0"), deadline=30)
    await write(cluster, 3, 10)


def _led_by_another(cluster: OwnComposeCluster) -> Any:
    async def another() -> bool:
        return any([await _leads(member(cluster, name)) for name in ("rs0-1", "rs0-2")])

    return another


def _led_by(cluster: OwnComposeCluster, name: str) -> Any:
    async def leads() -> bool:
        return await _leads(member(cluster, name))

    return leads


async def _leads(one: ContainerMember) -> bool:
    with suppress(PyMongoError):
        async with one.client(serverSelectionTimeoutMS=2000, socketTimeoutMS=2000) as client:
            return bool((await client.admin.command("hello"))["isWritablePrimary"])
    return False


async def test_one_way_connections_of_the_other_side_are_cut_and_its_own_work(
    cluster: OwnComposeCluster, tmp_path: Path
) -> None:
    async with struck(cluster, tmp_path, "partition way=in"):
        # It replicates by a connection of its own.
        await write(cluster, 3, 10)
    async with struck(cluster, tmp_path, "partition"):
        with pytest.raises((WriteConcernError, WTimeoutError)):
            await write(cluster, 3, 1)


async def test_a_thin_line_takes_its_time_both_ways(cluster: OwnComposeCluster, tmp_path: Path) -> None:
    assert await answers(member(cluster), 200_000) < 1
    async with struck(cluster, tmp_path, "bandwidth bytes_per_second=200000") as (evidence,):
        assert await answers(member(cluster), 200_000) > 0.5
        assert len(evidence.fields["bytes"]) == 2
        assert all(one >= 200_000 for one in evidence.fields["bytes"])
        again = await injection(cluster, tmp_path, "bandwidth").fault.available()
        assert "has a queueing discipline already: tbf" in str(again)
    assert await answers(member(cluster), 200_000) < 1


async def test_packets_are_lost_by_their_share(cluster: OwnComposeCluster, tmp_path: Path) -> None:
    async with struck(cluster, tmp_path, "packet-loss share=0.2") as (evidence,):
        assert 0.02 < evidence.fields["dropped"] / evidence.fields["packets"] < 0.6
    async with struck(cluster, tmp_path, "packet-loss share=1 direction=to"):
        with pytest.raises(PyMongoError):
            await answers(member(cluster), deadline=1)
    assert await answers(member(cluster)) < 5


async def test_latency_is_by_netem_or_the_kernel_s_own_words_say_why_not(
    cluster: OwnComposeCluster, tmp_path: Path
) -> None:
    if (reason := netns.refused(*NETEM)) is None:
        async with struck(cluster, tmp_path, "latency ms=200"):
            assert await answers(member(cluster)) > 0.4
        return
    said = str(await injection(cluster, tmp_path, "latency").fault.available())
    assert "the kernel of this machine does not do it" in said
    assert reason.rpartition(": ")[2] in said
    assert said.count("\n") == 0


@pytest.mark.parametrize(
    ("form", "kind", "act"),
    [
        ("partition", FilteringFault, "put"),
        ("packet-loss", FilteringFault, "put"),
        ("bandwidth", ShapingFault, "put"),
        ("cpu-limit", engine, "limit"),
    ],
)
async def test_what_has_no_effect_is_not_proven(
    cluster: OwnComposeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, kind: Any, act: str
) -> None:
    monkeypatch.setattr("faults.packet_loss.PROOF_DEADLINE", 1.0)
    monkeypatch.setattr("faults.cpu_limit.PROOF_DEADLINE", 1.0)
    one = injection(cluster, tmp_path, form)
    assert await one.fault.available() is None
    with monkeypatch.context() as broken:
        broken.setattr(kind, act, lambda *_any: None)
        with pytest.raises(Unproven):
            await one.inject()
    await one.heal()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("partition by=proxy", "no proxy stands before rs0-2"),
        ("partition against=router", "against=router: the kernel tells containers apart, expected of rs0-0, rs0-1"),
        ("partition against=rs0-2", "against=rs0-2: it has no address of its own"),
        ("bandwidth source=driver", "source=driver: packets bear no such thing; expected by=proxy"),
    ],
)
async def test_what_cannot_be_is_said_in_one_line(
    cluster: OwnComposeCluster, tmp_path: Path, form: str, said: str
) -> None:
    assert said in str(await injection(cluster, tmp_path, form).fault.available())


async def test_without_root_or_the_tools_it_says_which(
    cluster: OwnComposeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = injection(cluster, tmp_path, "packet-loss").fault
    found = shutil.which
    for tool, package in {"nsenter": "util-linux", "iptables-restore": "iptables"}.items():
        with monkeypatch.context() as without:
            without.setattr(shutil, "which", lambda name, tool=tool: None if name == tool else found(name))
            assert await one.available() == f"no {tool} on the path: install {package}"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert await one.available() == "the network namespace of a container can be entered by root alone"


@pytest.mark.parametrize("form", ["packet-loss", "memory-limit", "partition by=kernel", "latency by=kernel"])
async def test_a_process_of_this_machine_is_no_container(cluster: OwnComposeCluster, tmp_path: Path, form: str) -> None:
    name, *options = form.split()
    kind = faults.by_name(name)
    process = LocalMember(member(cluster).spec, "127.0.0.1:1", [], tmp_path / "log", "token")
    fault = kind(Site(cluster, process), parse(name, kind.options, options))
    assert str(await fault.available()).startswith(f"{TARGET} is no container")
