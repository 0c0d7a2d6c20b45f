"""Everything a ledger says is open is undone in the order that works, and what fails stays written down."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from clusters.guard import (
    KillProcess,
    Ledger,
    Opening,
    Reconfigure,
    RemoveDirectory,
    RunCommand,
    SignalProcess,
    Undo,
    abandoned,
    heal,
    identify,
    ledger_directory,
    make_directory,
    new_token,
    state,
    survey,
    sweep,
    undo_all,
    undo_until_done,
)
from guard_parts import python, sleeper, stopped, until

NOBODY = "127.0.0.1:1"
HOPELESS = Reconfigure([NOBODY], "shard0", {NOBODY: {"priority": 1}})
"""A fault's undo for which there is no server."""
HOLDS = """
import sys, time
from clusters.guard import Ledger, RemoveDirectory, ledger_directory
ledger = Ledger.create(ledger_directory(sys.argv[1]))
ledger.open(RemoveDirectory(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONGOFAULT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def directory_of_ours(path: Path) -> RemoveDirectory:
    return RemoveDirectory(str(make_directory(path)))


def test_processes_go_before_directories_and_these_in_reverse_order(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    with sleeper() as first, sleeper() as second:
        undos: list[Undo] = [
            directory_of_ours(tmp_path / "a"),
            KillProcess(stopped(first)),
            directory_of_ours(tmp_path / "b"),
            KillProcess(identify(second.pid)),
        ]
        ledger.open_many([Opening(undo) for undo in undos])
        report = undo_all(ledger, 5)
        assert [one.undo for one in report.done] == [undos[3], undos[1], undos[2], undos[0]]
        assert report.failed == []
        assert first.wait(1) == second.wait(1) == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert not ledger.directory.exists()


def test_undoing_a_second_time_is_harmless(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    guardian = Ledger.load(ledger.directory, keep_open=True)
    ledger.open(directory_of_ours(tmp_path / "a"))
    assert undo_all(ledger, 5).failed == []
    assert undo_all(ledger, 5, everything=True).failed == []
    assert guardian.hold().open_records() == []
    assert undo_all(guardian, 5).done == []


def test_a_kept_cluster_is_only_healed_until_everything_is_asked_for(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    with sleeper() as child:
        process = stopped(child)
        ledger.open_many([Opening(directory_of_ours(tmp_path / "a")), Opening(KillProcess(process))])
        ledger.keep()
        ledger.open(SignalProcess(process, signal.SIGCONT), "fault", "freeze")
        assert [one.title for one in undo_all(ledger, 5).done] == ["freeze"]
        assert state(process) in ("S", "R")
        assert (tmp_path / "a").exists()
        assert len(ledger.open_records()) == 2

        assert undo_all(ledger, 5, everything=True).failed == []
        assert child.wait(1) == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert not ledger.directory.exists()


def test_what_fails_stays_open_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "precious").touch()
    ledger = Ledger.create(ledger_directory("one"))
    ledger.open_many(
        [
            Opening(directory_of_ours(tmp_path / "a")),
            Opening(RemoveDirectory(str(tmp_path / "theirs")), title="data"),
            Opening(RunCommand("nonsense", "admin", {"ping": 1})),
            Opening(directory_of_ours(tmp_path / "b")),
        ]
    )
    report = undo_all(ledger, 5)
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
    assert [one.record.id for one in report.failed] == [3, 2]
    assert str(report.failed[1]).startswith(f"data (remove {tmp_path}/theirs): {tmp_path}/theirs: bears no .mongofault")
    assert [one.id for one in ledger.open_records()] == [2, 3]
    assert ledger.directory.exists()


def test_what_failed_is_tried_again_until_the_deadline(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    ledger.open(RunCommand(NOBODY, "admin", {"ping": 1}))
    begin = time.monotonic()
    report = undo_until_done(ledger, 0.8)
    assert [one.reason for one in report.failed] == [f"{NOBODY}: nobody listens there"]
    assert 0.5 <= time.monotonic() - begin < 2


def test_a_stopped_member_runs_again_before_anything_else_is_tried(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"), on="attached")
    with sleeper() as child:
        thaw = SignalProcess(stopped(child), signal.SIGCONT)
        others: list[Undo] = [directory_of_ours(tmp_path / "a"), directory_of_ours(tmp_path / "b")]
        ledger.open_many([Opening(undo, "fault") for undo in [thaw, *others]])
        assert [one.undo for one in undo_all(ledger, 5).done] == [thaw, *reversed(others)]


@pytest.mark.parametrize("lifetime", ["run", "kept"])
def test_faults_of_a_cluster_that_is_gone_need_no_undoing(tmp_path: Path, lifetime: str) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    with sleeper() as child:
        ledger.open(KillProcess(stopped(child)))
        ledger.open(HOPELESS, "fault")
        if lifetime == "kept":
            ledger.keep()
            child.kill()
            child.wait()
        begin = time.monotonic()
        report = undo_all(ledger, 5)
        assert report.failed == []
        assert HOPELESS in [one.undo for one in report.done]
        assert time.monotonic() - begin < 1


def test_faults_on_a_kept_cluster_are_undone_though_the_runs_own_processes_are_gone() -> None:
    with sleeper() as member, sleeper() as proxy:
        kept = Ledger.create(ledger_directory("kept"))
        process = stopped(member)
        kept.open(KillProcess(process))
        kept.keep()
        kept.release()
        run = Ledger.create(ledger_directory("run"), on=kept)
        run.open(KillProcess(identify(proxy.pid)))
        run.open(SignalProcess(process, signal.SIGCONT), "fault")
        run.open(HOPELESS, "fault", "tags")
        report = undo_all(run, 1)
        assert [one.record.title for one in report.failed] == ["tags"]
        assert proxy.wait(1) == -signal.SIGKILL
        assert state(process) in ("S", "R")

        member.kill()
        member.wait()
        assert undo_all(run, 1).failed == []
    assert not run.directory.exists()
    assert kept.directory.exists()


@pytest.mark.parametrize("then", ["nothing", "a namesake"])
def test_faults_on_a_kept_cluster_that_was_taken_down_need_no_undoing(then: str) -> None:
    kept = Ledger.create(ledger_directory("kept"), "kept")
    run = Ledger.create(ledger_directory("run"), on=kept)
    run.open(HOPELESS, "fault")
    assert len(undo_all(run, 0.2).failed) == 1
    kept.remove()
    if then == "a namesake":
        Ledger.create(ledger_directory("kept"), "kept").release()
    assert undo_all(run, 1).failed == []


def test_a_living_owner_is_told_from_a_dead_one(tmp_path: Path) -> None:
    data = make_directory(tmp_path / "data")
    with python(HOLDS, "one", data) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        assert [one.name for one in survey().held] == ["one"]
        assert abandoned() == []
        owner.kill()
        until(abandoned)
        assert survey().held == []
    (ledger,) = abandoned()
    assert heal(ledger, 5).failed == []
    assert not data.exists()
    assert abandoned() == []
    assert heal(ledger, 5).done == []


def test_a_kept_cluster_is_left_behind_only_with_a_fault_open() -> None:
    kept = Ledger.create(ledger_directory("kept"))
    with sleeper() as child:
        kept.open(KillProcess(stopped(child)))
        kept.keep()
        kept.release()
        assert [one.name for one in survey().kept] == ["kept"]
        assert abandoned() == []
        kept.hold()
        kept.open(SignalProcess(identify(child.pid), signal.SIGCONT), "fault")
        kept.release()
        (ledger,) = abandoned()
        assert len(heal(ledger, 5).done) == 1
        assert abandoned() == []
        assert state(identify(child.pid)) in ("S", "R")
        assert heal(Ledger.load(kept.directory), 5, everything=True).failed == []
        assert child.wait(1) == -signal.SIGKILL
    assert survey().kept == []


def test_a_kept_cluster_of_an_earlier_boot_has_only_directories_left(tmp_path: Path) -> None:
    kept = Ledger.create(ledger_directory("kept"), "kept")
    with sleeper() as child:
        now = identify(child.pid)
        then = type(now)(now.pid, now.start_time, "an earlier boot")
        kept.open_many([Opening(directory_of_ours(tmp_path / "data")), Opening(KillProcess(then, new_token()))])
        kept.open(HOPELESS, "fault")
        kept.release()
        (ledger,) = abandoned()
        assert heal(ledger, 5).failed == []
        assert (tmp_path / "data").exists()
        assert heal(Ledger.load(kept.directory), 5, everything=True).failed == []
        assert child.poll() is None
    assert not (tmp_path / "data").exists()


def test_a_broken_ledger_hides_no_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Ledger.create(ledger_directory(name)).release()
    (ledger_directory("a") / "ledger.jsonl").write_text("garbage\n")
    found = survey()
    assert [one.name for one in found.abandoned] == ["b"]
    assert "expected a line of a ledger, found b'garbage'" in str(found.broken[0])


def test_what_a_cut_off_making_or_removal_left_is_swept_away(own_root: Path) -> None:
    ledgers = own_root / "ledgers"
    for name in (".new-a-1", ".gone-b-1"):
        (ledgers / name).mkdir(parents=True)
        (ledgers / name / "ledger.jsonl").touch()
    Ledger.create(ledger_directory("one")).release()
    sweep()
    # The first may still be in the making.
    assert sorted(one.name for one in ledgers.iterdir()) == [".new-a-1", "one"]
