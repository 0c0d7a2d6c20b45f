"""A member or router that is killed and started again is the same one to everybody: to drivers, ledger and guardian."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aftermath import Place, wait_for
from clusters import local, ports
from clusters.errors import ClusterError, MemberDied
from clusters.guard import state
from clusters.local import OwnCluster
from clusters.topology import single_replica_set

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
async def expendable() -> AsyncIterator[OwnCluster]:
    cluster = await local.bring_up(single_replica_set(1), "tests-restarts")
    try:
        yield cluster
    finally:
        await cluster.down()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


async def test_a_killed_member_starts_again_with_its_data_and_without_the_fail_points_of_the_bring_up(
    expendable: OwnCluster,
) -> None:
    (member,) = expendable.members.values()
    before = member.process
    async with expendable.client() as client:
        await client.app.orders.insert_one({"_id": 1})
        await member.kill()
        assert not member.running()
        await member.start()
        assert member.process != before
        assert await client.app.orders.find_one() == {"_id": 1}
        found = await client.admin.command("getParameter", "*")
    assert [name for name, value in found.items() if name.startswith("failpoint.") and value.get("mode")] == []


async def test_a_member_that_runs_is_not_started_twice(expendable: OwnCluster) -> None:
    (member,) = expendable.members.values()
    with pytest.raises(ClusterError, match="rs0-0 runs already; kill or stop it first"):
        await member.start()


async def test_a_member_that_cannot_start_again_says_why(expendable: OwnCluster) -> None:
    (member,) = expendable.members.values()
    await member.stop()
    command = member.command
    member.command = [*command, "--setParameter", "noSuchParameter=1"]
    try:
        with pytest.raises(MemberDied, match=r"exit code 1.*noSuchParameter"):
            await member.start()
    finally:
        member.command = command
        await member.start()


async def test_down_removes_what_was_started_again() -> None:
    cluster = await local.bring_up(single_replica_set(1), "tests-restarted-down")
    (member,) = cluster.members.values()
    await member.kill()
    await member.start()
    process = member.process
    await cluster.down()
    assert process is not None
    assert state(process) is None
    assert ports.free(int(member.host.rpartition(":")[2]))


RESTARTING = """
import asyncio
from clusters import local
from clusters.topology import sharded_cluster

async def main():
    cluster = await local.bring_up(sharded_cluster(1, 1), "restarting")
    for one in (cluster.members["shard0-0"], cluster.router_process):
        await one.kill()
        await one.start()
    print("restarted", flush=True)
    while True:
        await cluster.members["shard0-0"].kill()
        await cluster.members["shard0-0"].start()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.2, pytest.param(0.0, marks=pytest.mark.slow)])
def test_the_guardian_of_a_killed_owner_removes_what_was_started_again_and_what_is_just_starting(
    place: Place, delay: float
) -> None:
    owner = place.python(RESTARTING)
    wait_for(["restarted"], owner, 120)
    time.sleep(delay)
    owner.kill()
    owner.communicate()
    assert place.left_after() == []


@pytest.mark.slow
def test_a_kept_cluster_knows_a_member_that_somebody_started_again(place: Place) -> None:
    assert place.run("up", "--name", "mine", "--replica-set", "--members", "1").returncode == 0
    again = """
import asyncio, mongofault

async def main():
    member = mongofault.load_cluster("mine").members["rs0-0"]
    await member.kill()
    await member.start()

asyncio.run(main())
"""
    done = place.python(again)
    assert done.wait(60) == 0
    status = json.loads(place.run("status", "mine", "--json").stdout)
    assert [one["process"] for one in status["members"]] == ["running"]
    assert place.run("down", "mine").returncode == 0
    assert place.left_after(1.0) == []
