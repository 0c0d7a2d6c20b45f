"""However an owner ends, its guardian leaves nothing of it behind. Crash tests: owners are real, and really killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aftermath import kill_with_guardian
from clusters.guard import (
    TOKEN_VARIABLE,
    Guardian,
    GuardianFailed,
    KillProcess,
    Ledger,
    RemoveDirectory,
    SignalProcess,
    abandoned,
    heal,
    identify,
    ledger_directory,
    make_directory,
    state,
    survey,
)
from guard_parts import CLEAN_UP, ROOT, owner, python, sleeper, stopped, until


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONGOFAULT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize("seed", range(4))
def test_owners_killed_at_random_moments_leave_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with contextlib.ExitStack() as stack:
        owners = [stack.enter_context(owner(tmp_path, "many", f"owner-{number}")) for number in range(3)]
        for one in owners:
            one.wait_for("watched")
        for one in owners:
            time.sleep(rng.uniform(0, 0.06))
            one.child.kill()
        for one in owners:
            one.leaves_nothing()
    assert abandoned() == []


def test_an_owner_killed_before_its_guardian_is_ready_leaves_nothing_but_perhaps_an_empty_ledger(
    tmp_path: Path,
) -> None:
    rng = random.Random(5)
    for number in range(4):
        with owner(tmp_path, "many", f"owner-{number}") as one:
            time.sleep(rng.uniform(0.03, 0.25))
            one.child.kill()
            one.has_no_processes()
            for ledger in abandoned():
                assert ledger.open_records() == []
                assert heal(ledger, CLEAN_UP).failed == []
            one.leaves_nothing()


def test_a_spawn_whose_pid_was_never_written_down_is_found(tmp_path: Path) -> None:
    with owner(tmp_path, "lost spawn") as one:
        one.wait_for("watched")
        assert one.child.wait(5) == -signal.SIGKILL
        one.leaves_nothing()


def test_an_owner_that_ends_with_an_error_leaves_nothing(tmp_path: Path) -> None:
    with owner(tmp_path, "error") as one:
        assert one.child.wait(10) == 1
        one.leaves_nothing()


def test_a_guardian_outlives_the_process_group_of_its_owner(tmp_path: Path) -> None:
    with owner(tmp_path) as one:
        one.wait_for("up")
        os.killpg(one.child.pid, signal.SIGKILL)
        one.leaves_nothing()


def test_a_guardian_cannot_be_interrupted_terminated_or_hung_up(tmp_path: Path) -> None:
    with owner(tmp_path) as one:
        guardian = int(one.wait_for("watched")[1])
        one.wait_for("up")
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(guardian, sig)
        assert os.getsid(guardian) == guardian
        one.child.kill()
        one.leaves_nothing()


def test_a_kept_cluster_is_healed_and_lives_on(tmp_path: Path) -> None:
    with owner(tmp_path, "kept") as one:
        guardian = int(one.wait_for("watched")[1])
        one.wait_for("up")
        one.child.kill()
        until(lambda: guardian not in one.processes(), CLEAN_UP, "the end of the guardian")
        members = one.processes()
        assert len(members) == 20
        assert {state(identify(pid)) for pid in members} <= {"S", "R"}
        assert abandoned() == []
        (kept,) = survey().kept
        assert heal(kept, CLEAN_UP, everything=True).failed == []
        one.leaves_nothing()


def test_after_guardian_and_owner_are_killed_heal_does_the_same_by_hand(tmp_path: Path) -> None:
    with owner(tmp_path) as one:
        guardian = int(one.wait_for("watched")[1])
        one.wait_for("up")
        kill_with_guardian(one.child, guardian)
        (ledger,) = abandoned()
        assert one.processes() != []
        assert heal(ledger, CLEAN_UP).failed == []
        one.leaves_nothing()
        assert abandoned() == []


def test_guardian_and_heal_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    with owner(tmp_path) as one:
        one.wait_for("up")
        loaded = Ledger.load(one.ledger)
        one.child.kill()
        one.child.wait()
        assert heal(loaded, CLEAN_UP).failed == []
        one.leaves_nothing()


def test_of_two_owners_side_by_side_only_the_dead_ones_things_go(tmp_path: Path) -> None:
    with owner(tmp_path, name="dead") as dead, owner(tmp_path, name="alive") as alive:
        dead.wait_for("up")
        alive.wait_for("up")
        before = alive.remains()
        dead.child.kill()
        dead.leaves_nothing()
        assert alive.remains() == before
        alive.child.kill()
        alive.leaves_nothing()


def test_a_state_directory_that_was_deleted_meanwhile_changes_nothing(tmp_path: Path, own_root: Path) -> None:
    with owner(tmp_path) as one:
        one.wait_for("up")
        shutil.rmtree(own_root)
        one.child.kill()
        one.leaves_nothing()


def test_a_dismissed_guardian_leaves_everything_as_it_is(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    guardian = Guardian.start(ledger)
    assert guardian.alive()
    with sleeper() as child:
        ledger.open(KillProcess(identify(child.pid)))
        begin = time.monotonic()
        guardian.dismiss(deadline=30)
        assert time.monotonic() - begin < 10
        assert not guardian.alive()
        guardian.dismiss()
        assert child.poll() is None
    assert len(ledger.open_records()) == 1


def test_a_guardian_that_gets_ready_after_its_owners_death_undoes_as_well(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    ledger.open(RemoveDirectory(str(make_directory(tmp_path / "data"))))
    ledger.release()
    command = [sys.executable, "-m", "clusters.guard", str(ledger.directory)]
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=write_end, check=True, timeout=20)
    finally:
        os.close(write_end)
    assert not (tmp_path / "data").exists()
    assert not ledger.directory.exists()


def test_a_guardian_that_is_killed_is_replaced_as_often_as_it_takes_and_told_of(tmp_path: Path) -> None:
    guardian = Guardian.start(Ledger.create(ledger_directory("one")))
    told: list[int] = []
    guardian.replaced = lambda: told.append(guardian.pid)
    seen = [guardian.pid]
    for _ in range(3):
        os.kill(seen[-1], signal.SIGKILL)
        assert guardian.alive()
        until(lambda: told != seen[1:], 2, "word of another guardian")
        seen.append(guardian.pid)
    assert told == seen[1:]
    assert len(set(seen)) == 4
    guardian.dismiss()
    assert not guardian.alive()
    assert [pid for pid in seen if Path(f"/proc/{pid}").exists()] == []


def test_the_guardian_that_took_anothers_place_undoes_what_its_owner_leaves(tmp_path: Path) -> None:
    with owner(tmp_path) as one:
        os.kill(int(one.wait_for("watched")[1]), signal.SIGKILL)
        one.wait_for("up")
        one.child.kill()
        one.leaves_nothing()


def test_where_no_other_guardian_can_be_started_it_is_known(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    guardian = Guardian.start(ledger)
    shutil.rmtree(ledger.directory)
    os.kill(guardian.pid, signal.SIGKILL)
    until(lambda: not guardian.alive())
    guardian.dismiss()


def test_two_guardians_of_one_ledger_heal_once_and_neither_complains(tmp_path: Path) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    with sleeper() as child:
        process = stopped(child)
        ledger.open(RemoveDirectory(str(make_directory(tmp_path / "data"))))
        ledger.open(SignalProcess(process, signal.SIGCONT), "fault")
        command = [sys.executable, "-m", "clusters.guard", str(ledger.directory)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        both = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(2)]  # type: ignore[call-overload]
        assert [one.stdout.readline() for one in both] == ["ready\n"] * 2
        ledger.release()
        said = [one.communicate(timeout=30) for one in both]
        until(lambda: state(process) != "T")
    assert [one.returncode for one in both] == [0, 0]
    told = "".join(err for _out, err in said)
    assert told.count("undone: ") == 2
    assert "not undone" not in told
    assert not ledger.directory.exists()


def test_a_guardian_keeps_nothing_of_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "of the owner")
    ledger = Ledger.create(ledger_directory("one"))
    guardian = Guardian.start(ledger)
    proc = Path(f"/proc/{guardian.pid}")
    try:
        assert TOKEN_VARIABLE.encode() not in (proc / "environ").read_bytes()
        assert (proc / "cwd").readlink() == Path("/")
        until(lambda: len(list((proc / "fd").iterdir())) == 5, what="the closing of what it was started with")
        files = {fd.name: str(fd.readlink()) for fd in (proc / "fd").iterdir()}
        assert files.pop("0").startswith("pipe:")
        assert files.pop("1") == os.devnull
        assert files.pop("2") == str(ledger.directory / "guardian.log")
        assert sorted(files.values()) == [str(ledger.directory / name) for name in ("ledger.jsonl", "lock")]
    finally:
        guardian.dismiss()


def test_what_cannot_be_undone_at_first_is_tried_again(tmp_path: Path) -> None:
    theirs = tmp_path / "data"
    theirs.mkdir()
    (theirs / "file").touch()
    ledger = Ledger.create(ledger_directory("one"))
    guardian = Guardian.start(ledger)
    with sleeper() as child:
        process = stopped(child)
        ledger.open(RemoveDirectory(str(theirs)))
        ledger.open(SignalProcess(process, signal.SIGCONT), "fault")
        ledger.release()
        os.close(guardian._pipe or -1)
        until(lambda: state(process) != "T")
        (theirs / ".mongofault").touch()
        until(lambda: not ledger.directory.exists(), CLEAN_UP)
    assert not theirs.exists()
    guardian._pipe = None
    guardian.dismiss()


def test_without_a_guardian_nothing_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(ledger_directory("one"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(GuardianFailed, match="could not be started: No such file"):
        Guardian.start(ledger)
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with pytest.raises(GuardianFailed, match=r"did not get ready .*it said nothing; nothing was started"):
        Guardian.start(ledger)
    monkeypatch.undo()
    (ledger.directory / "ledger.jsonl").write_text("garbage\n")
    with pytest.raises(GuardianFailed, match="expected a line of a ledger, found b'garbage'"):
        Guardian.start(ledger)


def test_a_guardian_is_of_the_standard_library_alone() -> None:
    code = "import sys, clusters.guard.__main__; print({'pymongo', 'bson', 'asyncio', 'subprocess'} & set(sys.modules))"
    with python(code) as child:
        assert child.communicate(timeout=20)[0] == "set()\n"


def test_its_command_line_explains_itself() -> None:
    command = [sys.executable, "-m", "clusters.guard"]
    none = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (none.returncode, none.stderr) == (3, "expected one argument, the directory of a ledger\n")
    wrong = subprocess.run([*command, "/nowhere"], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (wrong.returncode, wrong.stderr) == (1, "there is no ledger in /nowhere\n")
