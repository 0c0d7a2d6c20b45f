"""The ledger says after any crash what was open before it, and belongs to one living process at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.guard import (
    KillProcess,
    Ledger,
    LedgerError,
    LedgerGone,
    LedgerHeld,
    NameTaken,
    Opening,
    Process,
    Record,
    RemoveDirectory,
    SignalProcess,
    Undo,
    ledger_directory,
    state_root,
)
from clusters.guard.records import State, replay
from guard_parts import python, until

SOMEBODY = Process(1234, 5678, "a boot")

FILLS_THE_DISK = """
import resource, sys
from pathlib import Path
from clusters.guard import Ledger, LedgerError, RemoveDirectory
ledger = Ledger.create(Path(sys.argv[1]))
kept = ledger.open(RemoveDirectory("/before"))
size = (ledger.directory / "ledger.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
try:
    ledger.open(RemoveDirectory("/too much"), title="x" * 100)
except LedgerError as error:
    print(error)
print([one.undo.path for one in ledger.open_records()])
print([one.undo.path for one in Ledger.load(ledger.directory).open_records()])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.open(RemoveDirectory("/after"))
print([one.undo.path for one in Ledger.load(ledger.directory).open_records()])
"""
TAKES = """
import sys, time
from pathlib import Path
from clusters.guard import Ledger, NameTaken
print("up", flush=True)
sys.stdin.read()
try:
    ledger = Ledger.create(Path(sys.argv[1]))
    print("mine")
except NameTaken:
    print("taken")
"""
HOLDS = """
import sys, time
from pathlib import Path
from clusters.guard import Ledger
ledger = Ledger.create(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ledgers" / "one"


undos: st.SearchStrategy[Undo] = st.one_of(
    st.builds(SignalProcess, st.just(SOMEBODY), st.just(signal.SIGCONT)),
    st.builds(KillProcess, st.sampled_from([None, SOMEBODY]), st.text(min_size=1, max_size=5)),
    st.builds(lambda name: RemoveDirectory(f"/{name}"), st.text(max_size=5)),
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("open"), st.lists(st.tuples(undos, st.sampled_from(["resource", "fault"]), st.text(max_size=5)))
        ),
        st.tuples(st.just("update"), st.integers(0, 9), undos),
        st.tuples(st.just("close"), st.integers(0, 9)),
        st.tuples(st.just("keep")),
    ),
    max_size=12,
)


def walk(ledger: Ledger, steps: list[tuple[Any, ...]]) -> dict[int, tuple[str, dict[int, Record]]]:
    """Do the steps; what the ledger said when its file had which size."""
    file = ledger.directory / "ledger.jsonl"

    def said() -> tuple[str, dict[int, Record]]:
        return ledger.lifetime, {one.id: one for one in ledger.open_records()}

    seen = {file.stat().st_size: said()}
    for what, *arguments in steps:
        ids = [one.id for one in ledger.open_records()]
        if what == "open":
            for undo, scope, title in arguments[0]:
                # One by one, so that a cut can fall between them.
                ledger.open_many([Opening(undo, scope, title)])
                seen[file.stat().st_size] = said()
        elif what == "keep":
            ledger.keep()
        elif ids and what == "update":
            ledger.update(ids[arguments[0] % len(ids)], arguments[1])
        elif ids and what == "close":
            ledger.close(ids[arguments[0] % len(ids)])
        seen[file.stat().st_size] = said()
    return seen


@settings(deadline=None, max_examples=60)  # fsyncs, on a machine that may be busy
@given(steps=steps, where=st.integers(0, 100_000))
def test_a_ledger_cut_at_any_byte_says_what_it_said_then(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]], where: int
) -> None:
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "one")
    seen = walk(ledger, steps)
    ledger.release()
    file = ledger.directory / "ledger.jsonl"
    cut = min(seen) + where % (max(seen) - min(seen) + 1)
    os.truncate(file, cut)
    lifetime, records = seen[max(size for size in seen if size <= cut)]

    loaded = Ledger.load(ledger.directory)
    assert (loaded.lifetime, {one.id: one for one in loaded.open_records()}) == (lifetime, records)

    # Whoever takes it over can go on writing behind the torn line.
    loaded.hold()
    added = loaded.open(RemoveDirectory("/added"))
    assert added not in records
    loaded.release()
    again = Ledger.load(ledger.directory)
    assert {one.id for one in again.open_records()} == {*records, added}


@given(st.binary(max_size=60))
def test_whatever_stands_in_a_ledger_it_is_read_or_refused_in_one_line(garbage: bytes) -> None:
    header = b'{"ledger": 1, "id": "a", "lifetime": "run"}\n'
    for raw in (garbage, header + garbage, header + garbage + b"\n"):
        try:
            assert isinstance(replay(raw), State)
        except LedgerError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('{"open": 1}', 2),
        ('{"close": 7}', 2),
        ('{"update": 7, "undo": {"do": "remove directory", "path": "/a"}}', 2),
        ('{"open": 1, "scope": "resource", "title": "", "undo": {"do": "dance"}}', 2),
        ('{"lifetime": "for ever"}', 2),
        ("[]", 2),
    ],
)
def test_garbage_is_named_with_file_and_line(directory: Path, line: str, number: int) -> None:
    Ledger.create(directory).release()
    with (directory / "ledger.jsonl").open("a") as file:
        file.write(line + "\n")
    (problem,) = Ledger.load(directory).damage
    assert f"ledger.jsonl:{number}: expected a line of a ledger, found b'" in problem


def test_a_ledger_of_a_later_format_is_refused() -> None:
    with pytest.raises(LedgerError, match="expected ledger format 1, found 2"):
        replay(b'{"ledger": 2}\n')


def test_a_name_is_taken_once(directory: Path) -> None:
    first = Ledger.create(directory)
    with pytest.raises(NameTaken, match="the name 'one' is taken"):
        Ledger.create(directory)
    assert first.open(RemoveDirectory("/a")) == 1
    assert [one.name for one in directory.parent.iterdir()] == ["one"]
    first.close(1)
    first.remove()
    assert list(directory.parent.iterdir()) == []
    Ledger.create(directory).release()


def test_of_many_who_want_a_name_one_gets_it(directory: Path) -> None:
    read_end, write_end = os.pipe()
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(python(TAKES, directory, stdin=read_end)) for _ in range(5)]
        os.close(read_end)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
        os.close(write_end)
        answers = sorted(child.communicate(timeout=20)[0].strip() for child in children)
    assert answers == ["mine", *["taken"] * 4]


def test_a_ledger_is_held_by_one_living_process(directory: Path) -> None:
    with python(HOLDS, directory) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        ledger = Ledger.load(directory)
        assert ledger.is_held()
        with pytest.raises(LedgerHeld, match="held by a living process"):
            ledger.hold(0.05)
        with pytest.raises(LedgerError, match="not held by this process"):
            ledger.open(RemoveDirectory("/a"))
        owner.kill()
        ledger.hold(5)
        assert ledger.is_held()


def test_a_child_of_the_owner_does_not_inherit_the_lock(directory: Path) -> None:
    owner = Ledger.create(directory)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        owner.release()
        until(lambda: not Ledger.load(directory).is_held())
    finally:
        child.kill()
        child.wait()


def test_what_was_written_since_it_was_loaded_is_read_when_it_is_held(directory: Path) -> None:
    owner = Ledger.create(directory)
    other = Ledger.load(directory)
    owner.open(RemoveDirectory("/a"))
    owner.release()
    assert [one.undo for one in other.hold().open_records()] == [RemoveDirectory("/a")]


def test_a_full_disk_is_an_error_before_the_act_and_leaves_the_ledger_whole(directory: Path) -> None:
    with python(FILLS_THE_DISK, directory) as child:
        said, in_memory, on_disk, later = child.communicate(timeout=20)[0].splitlines()
    assert said == f"cannot write to {directory}/ledger.jsonl: File too large"
    assert in_memory == on_disk == "['/before']"
    assert later == "['/before', '/after']"


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=r"cannot make a ledger in .*/file/one"):
        Ledger.create(tmp_path / "file" / "one")


def test_a_ledger_whose_directory_was_deleted_can_still_be_held_by_who_had_it_open(directory: Path) -> None:
    owner = Ledger.create(directory)
    guardian = Ledger.load(directory, keep_open=True)
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()
    owner.open(RemoveDirectory("/a"))
    with pytest.raises(LedgerGone):
        Ledger.load(directory)
    owner.release()
    assert [one.undo for one in guardian.hold().open_records()] == [RemoveDirectory("/a")]
    namesake = Ledger.create(directory)
    guardian.remove(whatever_is_open=True)
    assert (namesake.directory / "ledger.jsonl").exists()


def test_another_ledger_of_the_same_name_is_not_taken_for_it(directory: Path) -> None:
    first = Ledger.create(directory)
    loaded = Ledger.load(directory)
    first.remove()
    Ledger.create(directory).release()
    with pytest.raises(LedgerGone, match="another one of the same name"):
        loaded.hold()


def test_a_ledger_with_open_records_is_not_removed(directory: Path) -> None:
    ledger = Ledger.create(directory)
    ledger.open(RemoveDirectory("/a"))
    with pytest.raises(LedgerError, match="1 open records; undo them first"):
        ledger.remove()
    assert directory.exists()


@pytest.mark.parametrize("name", ["", ".", "..", ".new-x", "a/b", "a b", "-x", "x" * 65])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected a name"):
        ledger_directory(name)


def test_the_state_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGOFAULT_STATE", "/own")
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert state_root() == Path("/own")
    assert ledger_directory("a") == Path("/own/ledgers/a")
    monkeypatch.delenv("MONGOFAULT_STATE")
    assert state_root() == Path("/xdg/mongofault")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_root() == Path.home() / ".local/state/mongofault"
