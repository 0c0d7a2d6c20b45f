"""Disks that are full or read-only, under record and ledger: one clear line, and what was open is healed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aftermath import CLEAN_DEADLINE, Place, wait_for
from harness import exits
from harness.history import NotRecorded, Recorder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to mount a small file system one must be root")

RUN = ("run", "update-lookup-stall", "--streams", "2", "--hold", "4s")


@contextmanager
def mounted(directory: Path, size: str = "64k", *, read_only: bool = False) -> Iterator[Path]:
    """A file system of its own in a directory."""
    directory.mkdir(exist_ok=True)
    options = f"size={size}" + (",ro" if read_only else "")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> None:
    """Until nothing more fits."""
    with (directory / "filling").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 4096)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


@needs_root
def test_what_announces_is_refused_by_a_full_disk_and_what_comes_after_is_not(tmp_path: Path) -> None:
    with mounted(tmp_path / "runs") as runs:
        recorder = Recorder(runs / "history.jsonl")
        recorder.record("phase", "test", name="load")
        fill(runs)
        seen: list[str] = []
        recorder.subscribe(lambda event: seen.append(event.kind))
        for _ in range(100):
            recorder.record("cluster", "test", what="x" * 4096)
        recorder.record("fault.healed", "test", id="f1")
        with pytest.raises(NotRecorded, match=r"history.jsonl cannot be written: No space left on device; free some"):
            recorder.record("fault.opened", "test", id="f2", fault="freeze", target="shard0-1")
        assert seen == ["cluster"] * 100 + ["fault.healed"]
        recorder.close()


@needs_root
@pytest.mark.live
@pytest.mark.slow
def test_a_run_whose_record_fills_its_disk_says_so_and_leaves_nothing_broken(place: Place) -> None:
    with mounted(place.root / "runs", "256k") as runs:
        process = place.start(*RUN, "--runs", str(runs))
        wait_for(["phase hold"], process, 60)
        fill(runs)
        _out, err = process.communicate(timeout=60)
        assert process.returncode == exits.UNKNOWN
        assert "cannot be written: No space left on device" in err
        assert "What was broken is healed" in err
        assert err.count("\n") == 1
    assert place.left_after(CLEAN_DEADLINE) == []


@needs_root
@pytest.mark.live
@pytest.mark.slow
def test_a_run_whose_ledger_can_no_longer_be_written_heals_and_takes_down_all_the_same(place: Place) -> None:
    with mounted(place.root / "state", "256k") as state:
        process = place.start(*RUN)
        wait_for(["phase hold"], process, 60)
        assert "T" in place.processes().values()
        fill(state)
        out, err = process.communicate(timeout=60)
        # A line or two may still fit into the ledger's last block.
        assert process.returncode in (exits.AS_EXPECTED, exits.UNKNOWN), out + err
        assert "Traceback" not in err
        assert place.processes() == {}
        assert list((place.root / "data").glob("*")) == []


@needs_root
@pytest.mark.parametrize("command", [("up", "--name", "mine"), RUN])
def test_without_a_place_for_the_ledger_nothing_is_started(place: Place, command: tuple[str, ...]) -> None:
    with mounted(place.root / "state", read_only=True):
        done = place.run(*command)
        assert done.returncode == exits.REFUSED
        assert "Read-only file system; set MONGOFAULT_STATE to a directory of yours" in done.stderr
        assert done.stderr.count("\n") == 1
        assert place.processes() == {}
