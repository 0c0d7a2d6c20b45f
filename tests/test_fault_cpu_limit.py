"""`cpu-limit` holds a member back, where the kernel lets it, and leaves no control group; elsewhere it says why not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.read_preferences import SecondaryPreferred

from clusters.guard import KillProcess, Ledger, RemoveCgroup, UndoFailed, identify, undo_all
from clusters.local import OwnCluster
from clusters.member import LocalMember
from fault_parts import a_secondary, fault, struck
from faults import Unproven
from faults.cgroup import CpuGroup, NoCgroup, find, place_for
from faults.cpu_limit import WORK
from guard_parts import sleeper

V1 = """\
25 24 0:23 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory
26 24 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
27 24 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
CONTAINER = "31 23 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "expected"),
    [
        ("4:memory:/a\n1:cpu,cpuacct:/user\n0::/\n", V1, (1, "/sys/fs/cgroup/cpu,cpuacct", "user")),
        (
            "0::/user.slice/user-0.slice/session-1.scope\n",
            V2,
            (2, "/sys/fs/cgroup", "user.slice/user-0.slice/session-1.scope"),
        ),
        ("0::/\n", V2, (2, "/sys/fs/cgroup", "")),
        ("3:cpu:/docker/abc/inner\n", CONTAINER, (1, "/sys/fs/cgroup/cpu", "inner")),
        ("3:cpu:/docker/abc\n", CONTAINER, (1, "/sys/fs/cgroup/cpu", "")),
        ("3:memory:/docker/abc\n", "20 1 8:1 / / rw - ext4 /dev/sda rw\n", None),
    ],
)
def test_the_cpu_controller_is_found_in_either_version(groups: str, mounts: str, expected: tuple[Any, ...]) -> None:
    found = find(groups, mounts)
    assert found == (expected and (expected[0], Path(expected[1]), Path(expected[1]) / expected[2]))


@pytest.fixture
def possible() -> None:
    """Skips where the kernel does not let this user make control groups; what is said of that is tested below."""
    with sleeper() as child:
        try:
            place_for(child.pid)
        except NoCgroup as error:
            pytest.skip(f"no control groups here: {error}")


async def work(member: LocalMember, times: int) -> float:
    """Seconds that some work of a driver's takes."""
    async with member.client() as client:
        begin = time.monotonic()
        for _time in range(times):
            await client.local.command(WORK, read_preference=SecondaryPreferred())
        return time.monotonic() - begin


def cpu_seconds(member: LocalMember) -> float:
    """What the kernel has given it so far (proc(5), fields 14 and 15)."""
    assert member.process is not None
    fields = Path(f"/proc/{member.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.live
@pytest.mark.usefixtures("possible")
async def test_a_limited_member_takes_its_time_until_its_record_alone_has_freed_it(
    replica_set: OwnCluster, tmp_path: Path
) -> None:
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, "cpu-limit share=0.1", tmp_path) as blow:
        evidence = await blow.injection.inject()
        assert evidence.fields["throttled"] >= 3
        assert await blow.fault.active()
        # 4 times 50 ms of CPU, at 10 ms in each tenth of a second; on a busy machine it takes no less.
        used = cpu_seconds(victim)
        limited = await work(victim, 4)
        assert limited > 0.8
        assert (cpu_seconds(victim) - used) / limited < 0.15
        group = Path(evidence.fields["cgroup"])
        assert blow.records() == [f"remove {group}"]
        for _time in range(2):
            await blow.undo_from_records_alone()
        assert not group.exists()
        assert not await blow.fault.active()
        assert min([await work(victim, 4) for _time in range(3)]) < limited


@pytest.mark.live
@pytest.mark.usefixtures("possible")
async def test_a_limit_without_effect_is_not_proven(
    replica_set: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CpuGroup, "take", lambda *_any: None)
    victim = await a_secondary(replica_set)
    async with struck(replica_set, victim, "cpu-limit", tmp_path) as blow:
        with pytest.raises(Unproven, match="was not held back by"):
            await blow.injection.inject()


@pytest.mark.live
async def test_where_no_control_group_may_be_made_it_says_why(
    replica_set: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = await a_secondary(replica_set)
    for mounts, said in {
        "20 1 8:1 / / rw - ext4 /dev/sda rw\n": "no control group with a cpu controller is mounted here",
        f"26 24 0:24 / {tmp_path} rw - cgroup cgroup rw,cpu\n": "may not be written by this user",
    }.items():
        (tmp_path / "mountinfo").write_text(mounts)
        monkeypatch.setattr("faults.cgroup.MOUNTS", tmp_path / "mountinfo")
        assert said in str(await fault(replica_set, victim, "cpu-limit").available())


@pytest.mark.usefixtures("possible")
def test_a_control_group_does_not_stay_when_the_whole_cluster_goes(tmp_path: Path) -> None:
    with sleeper() as child:
        place = place_for(child.pid)
        group = CpuGroup(place, f"test-{child.pid}")
        undo = RemoveCgroup(str(group.path), str(place.present))
        ledger = Ledger.create(tmp_path / "run")
        ledger.open(KillProcess(identify(child.pid)))
        ledger.open(undo, "fault")
        group.make(0.5)
        try:
            group.take(child.pid)
            assert undo_all(ledger, 5).failed == []
            assert not group.path.exists()
        finally:
            undo.undo(5)
    assert not ledger.directory.exists()


@pytest.mark.usefixtures("possible")
def test_processes_are_moved_back_and_one_that_cannot_be_is_said() -> None:
    with sleeper() as child, sleeper() as other:
        place = place_for(child.pid)
        group = CpuGroup(place, f"test-{child.pid}")
        undo = RemoveCgroup(str(group.path), str(place.present))
        undo.undo(1)
        group.make(0.5)
        try:
            group.take(child.pid)
            group.take(other.pid)
            assert group.holds(child.pid)
            with pytest.raises(UndoFailed, match="is not there"):
                RemoveCgroup(str(group.path), "/nowhere").undo(1)
            other.kill()
            other.wait()
        finally:
            undo.undo(5)
        assert not group.path.exists()
        assert not group.holds(child.pid)
        undo.undo(1)
