"""Clusters of local processes come up whole or not at all, and leave nothing when they go."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from pathlib import Path

import pytest

from clusters import local, ports
from clusters.cluster import primary_of
from clusters.errors import MemberDied, Refused
from clusters.guard import ledger_directory, state
from clusters.local import LocalCluster
from clusters.member import LocalMember
from clusters.topology import single_replica_set
from clusters.wire.connection import Connection

pytestmark = pytest.mark.live


async def hello(host: str) -> dict[str, object]:
    connection = await Connection.open(host, deadline=5)
    connection.close()
    return connection.hello


async def test_ready_means_primary_secondaries_and_an_acknowledged_majority_write(replica_set: LocalCluster) -> None:
    hellos = [await hello(member.host) for member in replica_set.members.values()]
    assert [one.get("isWritablePrimary") for one in hellos].count(True) == 1
    assert [one.get("secondary") for one in hellos].count(True) == 2
    async with replica_set.client() as client:
        assert await client["mongofault"]["canary"].count_documents({}) > 0


async def test_configuration_is_the_one_asked_for_once_ready(replica_set: LocalCluster) -> None:
    async with replica_set.client() as client:
        config = (await client.admin.command("replSetGetConfig"))["config"]
    assert config["settings"]["heartbeatIntervalMillis"] == 2000
    assert config["settings"]["chainingAllowed"] is False


async def test_bring_up_leaves_no_fail_point_on(replica_set: LocalCluster) -> None:
    for member in replica_set.members.values():
        async with member.client() as client:
            found = await client.admin.command("getParameter", "*")
        on = [name for name, value in found.items() if name.startswith("failpoint.") and value.get("mode")]
        assert on == []


async def test_every_member_listens_on_loopback_alone_and_below_the_ephemeral_range(replica_set: LocalCluster) -> None:
    for member in replica_set.members.values():
        address, _, port = member.host.rpartition(":")
        assert address == "127.0.0.1"
        assert ports.LOWEST <= int(port) < 32768


async def test_down_leaves_no_process_no_file_and_no_socket() -> None:
    cluster = await local.bring_up(single_replica_set(2), "tests-down")
    processes = [one.process for one in cluster.processes if one.process]
    hosts = [member.host for member in cluster.members.values()]
    assert cluster.directory.is_dir()
    await cluster.down()
    assert [state(one) for one in processes] == [None, None]
    assert not cluster.directory.exists()
    assert not ledger_directory("tests-down").exists()
    assert all(ports.free(int(host.rpartition(":")[2])) for host in hosts)
    assert not list(Path("/tmp").glob(f"mongodb-{hosts[0].rpartition(':')[2]}.sock"))


async def test_a_frozen_member_does_not_keep_a_cluster_from_going_down() -> None:
    cluster = await local.bring_up(single_replica_set(1), "tests-frozen-down")
    (member,) = cluster.members.values()
    member.freeze()
    await cluster.down()
    assert not member.running()


async def test_a_member_that_dies_during_bring_up_ends_it_with_its_last_words() -> None:
    topology = single_replica_set(1)
    settings = dataclasses.replace(topology.settings, parameters={"noSuchParameter": "1"})
    with pytest.raises(MemberDied, match=r"rs0-0 ended out of turn \(exit code 1\).*noSuchParameter"):
        await local.bring_up(dataclasses.replace(topology, settings=settings), "tests-dies")
    assert not ledger_directory("tests-dies").exists()


async def test_a_member_killed_during_bring_up_ends_it_and_removes_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[int] = []
    plain = LocalMember.spawn

    def spawn(member: LocalMember) -> object:
        process = plain(member)
        spawned.append(process.pid)
        if len(spawned) == 2:
            os.kill(process.pid, signal.SIGKILL)
        return process

    monkeypatch.setattr(LocalMember, "spawn", spawn)
    with pytest.raises(MemberDied, match="rs0-1 ended out of turn"):
        await local.bring_up(single_replica_set(3), "tests-killed")
    assert len(spawned) == 3
    for pid in spawned:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_taken_name_is_refused_and_the_owner_unharmed(replica_set: LocalCluster) -> None:
    with pytest.raises(Refused, match="'tests-replica-set' is taken"):
        await local.bring_up(single_replica_set(1), "tests-replica-set")
    assert (await primary_of(replica_set, "rs0")).running()


async def test_cancelled_bring_up_removes_what_it_started(own_state: Path) -> None:
    task = asyncio.create_task(local.bring_up(single_replica_set(3), "tests-cancelled"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ledger_directory("tests-cancelled").exists()
    assert not list(Path("/tmp").glob("mongofault-tests-cancelled-*"))
