"""Each primitive does its work once, is harmless the second time, and touches nothing that is not ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64

from clusters.guard import (
    MARKER,
    AddMember,
    ContinueContainer,
    EndStepDown,
    FailPointOff,
    FsyncUnlock,
    KillProcess,
    Process,
    Reconfigure,
    ReconnectContainer,
    RemoveCgroup,
    RemoveContainers,
    RemoveDirectory,
    RemoveRule,
    RunCommand,
    SignalProcess,
    StartContainer,
    StartProcess,
    Undo,
    UndoFailed,
    find_by_token,
    from_plain,
    identify,
    make_directory,
    new_path,
    new_token,
    state,
    to_plain,
)
from clusters.guard.commands import add, put_back
from clusters.guard.undo import kill
from guard_parts import sleeper, stopped, until

SOMEBODY = Process(1234, 5678, "a boot")
ALL: list[Undo] = [
    SignalProcess(SOMEBODY, signal.SIGCONT),
    KillProcess(SOMEBODY, "token"),
    KillProcess(token="token"),
    StartProcess(("/bin/mongod", "--port", "1"), "/log", "token"),
    StartProcess(("/bin/mongod", "--port", "1"), "/log", "token", SOMEBODY),
    RemoveDirectory("/somewhere"),
    FailPointOff("127.0.0.1:1", "failCommand"),
    FsyncUnlock("127.0.0.1:1"),
    RunCommand("127.0.0.1:1", "admin", {"setParameter": 1, "x": {"$numberLong": "5"}}),
    RunCommand("127.0.0.1:1", "admin", {"setParameter": 1, "x": 5}, in_memory=True),
    Reconfigure(("127.0.0.1:1",), "shard0", {"127.0.0.1:1": {"tags": {"dc": "a"}, "priority": 2}}),
    AddMember(
        ("127.0.0.1:1",), "shard0", {"_id": 2, "host": "127.0.0.1:2", "tags": {}, "secondaryDelaySecs": Int64(0)}
    ),
    EndStepDown("127.0.0.1:1"),
    RemoveRule("127.0.0.1:1", "cut shard0-1"),
    RemoveCgroup("/sys/fs/cgroup/mongofault-1", "/sys/fs/cgroup"),
    RemoveContainers("token"),
    ContinueContainer("1234"),
    StartContainer("1234", "2026-01-01T00:00:00.000000000Z"),
    ReconnectContainer("1234", "5678", ("shard0-0.mine", "1234"), "10.160.0.11"),
]


@pytest.mark.parametrize("undo", ALL, ids=str)
def test_an_undo_record_survives_json(undo: Undo) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(undo)))) == undo


@pytest.mark.parametrize(
    "plain",
    [{}, {"do": "dance"}, {"do": "remove directory"}, {"do": "remove directory", "path": "a"}, {"do": "kill process"}],
)
def test_what_is_no_undo_record_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|undo record|must be known"):
        from_plain(plain)


def test_a_stopped_process_runs_again_and_the_second_time_is_harmless() -> None:
    with sleeper() as child:
        process = stopped(child)
        undo = SignalProcess(process, signal.SIGCONT)
        undo.undo(1)
        assert state(process) in ("S", "R")
        undo.undo(1)
        child.kill()
        child.wait()
        undo.undo(1)


def test_a_process_is_killed_even_when_it_is_stopped() -> None:
    with sleeper() as child:
        undo = KillProcess(stopped(child))
        undo.undo(5)
        assert child.wait(1) == -signal.SIGKILL
        undo.undo(5)


def test_a_process_that_got_the_pid_since_is_left_alone() -> None:
    with sleeper() as child:
        process = identify(child.pid)
        KillProcess(replace(process, start_time=process.start_time - 1)).undo(1)
        SignalProcess(replace(process, boot_id="another boot"), signal.SIGKILL).undo(1)
        assert child.poll() is None


def test_a_spawn_of_which_only_the_token_is_known_is_found_and_killed() -> None:
    token = new_token()
    with sleeper(token) as child, sleeper(new_token()) as other:
        KillProcess(token=token).undo(5)
        assert child.wait(1) == -signal.SIGKILL
        assert other.poll() is None


def test_a_spawn_that_bears_its_token_only_a_little_later_is_killed_as_well() -> None:
    token = new_token()
    started: list[subprocess.Popen[bytes]] = []

    def later() -> None:
        time.sleep(0.2)
        started.append(subprocess.Popen(["sleep", "60"], env={"MONGOFAULT_TOKEN": token}))

    thread = threading.Thread(target=later)
    thread.start()
    try:
        KillProcess(token=token).undo(5)
        thread.join()
        assert started[0].wait(1) == -signal.SIGKILL
    finally:
        for child in started:
            child.kill()
            child.wait()


def test_the_children_of_a_wrapper_go_with_it() -> None:
    token = new_token()
    wrapper = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], env={**os.environ, "MONGOFAULT_TOKEN": token})
    try:
        until(lambda: len(find_by_token(token)) == 2)
        KillProcess(identify(wrapper.pid), token).undo(5)
        assert find_by_token(token) == []
    finally:
        wrapper.kill()
        wrapper.wait()


def test_many_processes_are_killed_in_the_time_of_one() -> None:
    with sleeper() as first, sleeper() as second, sleeper() as third:
        children = [first, second, third]
        assert kill([KillProcess(stopped(child)) for child in children], 5) == [None, None, None]
        assert [child.wait(1) for child in children] == [-signal.SIGKILL] * 3


def test_a_directory_of_ours_goes_with_all_that_is_in_it_and_nothing_that_is_linked(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    path = make_directory(new_path(tmp_path, "mongofault-"))
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "b" / MARKER).touch()
    (path / "a" / "link").symlink_to(outside)
    undo = RemoveDirectory(str(path))
    undo.undo(5)
    assert not path.exists()
    assert (outside / "precious").exists()
    undo.undo(5)


def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "precious").touch()
    with pytest.raises(UndoFailed, match=r"theirs: bears no \.mongofault"):
        RemoveDirectory(str(theirs)).undo(1)
    assert (theirs / "precious").exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_directory_is_left_alone(tmp_path: Path, kind: str) -> None:
    ours = make_directory(tmp_path / "ours")
    path = tmp_path / "path"
    if kind == "link":
        path.symlink_to(ours)
    else:
        path.touch()
    with pytest.raises(UndoFailed, match="left alone"):
        RemoveDirectory(str(path)).undo(1)
    assert (ours / MARKER).exists()
    assert path.exists()


def test_a_removal_that_is_cut_off_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    path = make_directory(tmp_path / "ours")
    for number in range(1000):
        (path / str(number)).touch()
    undo = RemoveDirectory(str(path))
    cut_off = 0
    while path.exists():
        try:
            undo.undo(0.001 * cut_off)
        except UndoFailed as error:
            assert "not all of it" in str(error)
            assert (path / MARKER).exists()
            cut_off += 1
    assert cut_off >= 1


def test_the_marker_is_the_last_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_directory(tmp_path / "ours")
    for name in ("a", "b", "c", "d", "e", "f"):
        (path / name).touch()
    removed: list[str] = []
    unlink = os.unlink

    def recorded(name: str, *, dir_fd: int) -> None:
        removed.append(name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", recorded)
    RemoveDirectory(str(path)).undo(5)
    assert len(removed) == 7
    assert removed[-1] == MARKER


def test_a_directory_that_was_made_but_not_marked_yet_goes(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    RemoveDirectory(str(tmp_path / "ours")).undo(1)
    assert not (tmp_path / "ours").exists()


def test_a_process_that_was_killed_is_started_again_once(tmp_path: Path) -> None:
    token = new_token()
    undo = StartProcess(["sleep", "60"], str(tmp_path / "log"), token)
    try:
        for _time in range(2):
            undo.undo(5)
            until(lambda: len(find_by_token(token)) == 1, what="one process with the token")
        (started,) = find_by_token(token)
        assert os.getsid(started.pid) == started.pid
    finally:
        KillProcess(token=token).undo(5)


def test_the_life_that_was_to_end_has_ended_before_another_begins(tmp_path: Path) -> None:
    token = new_token()
    with sleeper(token) as child:
        before = identify(child.pid)
        undo = StartProcess(["sleep", "60"], str(tmp_path / "log"), token, before)
        try:
            for _time in range(2):
                undo.undo(5)
                assert child.wait(1) == -signal.SIGKILL
                until(lambda: len(find_by_token(token)) == 1, what="one process with the token")
            assert find_by_token(token) != [before]
        finally:
            KillProcess(token=token).undo(5)


def test_a_command_that_cannot_be_started_is_not_called_undone(tmp_path: Path) -> None:
    with pytest.raises(UndoFailed, match="/nowhere/mongod cannot be started: No such file"):
        StartProcess(["/nowhere/mongod"], str(tmp_path / "log"), new_token()).undo(5)


def test_a_server_that_is_gone_has_no_fail_point_but_its_command_was_not_run_unless_for_its_memory_alone() -> None:
    nobody = "127.0.0.1:1"
    FailPointOff(nobody, "failCommand").undo(5)
    FsyncUnlock(nobody).undo(5)
    EndStepDown(nobody).undo(5)
    RemoveRule(nobody, "cut shard0-1").undo(5)
    with pytest.raises(UndoFailed, match="nobody listens"):
        RunCommand(nobody, "admin", {"ping": 1}).undo(1)
    RunCommand(nobody, "admin", {"ping": 1}, in_memory=True).undo(1)
    with pytest.raises(UndoFailed, match="no primary found"):
        Reconfigure([nobody], "shard0", {nobody: {"priority": 1}}).undo(0.1)


def config(*members: dict[str, Any]) -> dict[str, Any]:
    return {"_id": "rs", "version": 3, "members": [{"host": str(i), "tags": {}, **m} for i, m in enumerate(members)]}


def test_only_the_named_fields_of_the_named_members_are_put_back() -> None:
    found = config({"priority": 0, "tags": {"lookup": "yes"}}, {"priority": 0})
    assert put_back(found, {"0": {"tags": {}}, "1": {"priority": 2}, "no longer there": {"priority": 1}})
    assert found == config({"priority": 0}, {"priority": 2})
    assert not put_back(found, {"0": {"tags": {}}, "1": {"priority": 2}})


def test_one_vote_is_put_back_at_a_time() -> None:
    found = config({"votes": 0, "priority": 0}, {"votes": 0, "priority": 0}, {"votes": 1, "priority": 0})
    wanted = {str(member): {"votes": 1, "priority": 1} for member in range(3)}
    votes = []
    while put_back(found, wanted):
        votes.append([member["votes"] for member in found["members"]])
    assert votes == [[1, 0, 1], [1, 1, 1]]
    assert [member["priority"] for member in found["members"]] == [1, 1, 1]


def test_a_member_is_added_once_in_its_old_place() -> None:
    found = config({"_id": 0}, {"_id": 1}, {"_id": 2})
    whole, (removed,) = config(*found["members"]), found["members"][1:2]
    del found["members"][1]
    assert add(found, removed)
    assert found == whole
    assert not add(found, removed)


@pytest.mark.parametrize("path", ["/sys/fs/cgroup", "mongofault-1"])
def test_a_control_group_that_is_not_ours_is_no_undo_record(path: str) -> None:
    with pytest.raises(ValueError, match="expected the absolute path of a control group mongofault-"):
        RemoveCgroup(path, "/sys/fs/cgroup")
