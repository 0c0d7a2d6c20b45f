"""What a run left behind, found without any of its own book-keeping: by environment, by directory, by port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness import exits

CLEAN_DEADLINE = 5.0
"""Seconds after a kill within which nothing of a run may be left."""


@dataclass(frozen=True)
class Place:
    """State, data and records of the runs under test, apart from everything else on this machine."""

    root: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        for name in ("state", "data"):
            (self.root / name).mkdir(exist_ok=True)
        return {
            **os.environ,
            "MONGOFAULT_STATE": str(self.root / "state"),
            "TMPDIR": str(self.root / "data"),
            "COLUMNS": "200",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`mongofault ARGUMENTS` as a process of its own, in a process group of its own."""
        return self._start("-m", "harness", *arguments)

    def python(self, script: str) -> subprocess.Popen[str]:
        """A Python script in the same way."""
        return self._start("-c", script)

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Whatever a test that failed left: no process of it outlives the test, nor an open pipe."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def run(self, *arguments: str, deadline: float = 120) -> subprocess.CompletedProcess[str]:
        """The same, waited for."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=deadline)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def processes(self) -> dict[int, str]:
        """Every living process that was started, at whatever remove, by a command under test: pid and state."""
        wanted = f"MONGOFAULT_STATE={self.root / 'state'}".encode()
        found = {}
        for directory in Path("/proc").iterdir():
            if not directory.name.isdigit() or int(directory.name) == os.getpid():
                continue
            try:
                if wanted not in (directory / "environ").read_bytes().split(b"\0"):
                    continue
                state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state not in "ZX":
                found[int(directory.name)] = state
        return found

    def left(self) -> list[str]:
        """Sentences on what is left: processes, data directories, ledgers. Empty where all is gone."""
        return [
            *(f"process {pid} in state {state}" for pid, state in self.processes().items()),
            *(f"data {one}" for one in (self.root / "data").glob("*")),
            *(f"ledger {one}" for one in (self.root / "state").glob("ledgers/*")),
        ]

    def left_after(self, deadline: float = CLEAN_DEADLINE) -> list[str]:
        """What is still left after `deadline` seconds, or an empty list as soon as nothing is."""
        end = time.monotonic() + deadline
        while (left := self.left()) and time.monotonic() < end:
            time.sleep(0.05)
        return left


@contextmanager
def kept_cluster(path: Path, name: str, *options: str, gone_within: float = CLEAN_DEADLINE) -> Iterator[Place]:
    """A place with a cluster that outlives whoever breaks it, and is taken down afterwards without a trace."""
    place = Place(path)
    try:
        up = place.run("up", "--name", name, *options)
        assert up.returncode == exits.AS_EXPECTED, up.stderr
        yield place
        healed_after_a_kill(place, name)
        assert place.run("down", name).returncode == exits.AS_EXPECTED
        assert place.left_after(gone_within) == []
    finally:
        place.end()


def healed_after_a_kill(place: Place, name: str, deadline: float = 60.0) -> None:
    """Wait until the guardian of a killed run is done with the kept cluster: only the cluster's own ledger is left."""
    end = time.monotonic() + deadline
    while [one.name for one in (place.root / "state/ledgers").iterdir() if not one.name.startswith(".")] != [name]:
        assert time.monotonic() < end, f"not within {deadline:g} s: {place.left()}"
        time.sleep(0.05)


def kill_with_guardian(process: subprocess.Popen[str], guardian: int) -> None:
    """Both at one stroke: an owner that saw its guardian end would start another one."""
    process.send_signal(signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    process.kill()
    process.wait()


def wait_for(lines: Sequence[str], process: subprocess.Popen[str], deadline: float) -> list[str]:
    """Read the process's output until a line holds one of `lines`; what was read."""
    assert process.stdout is not None
    read: list[str] = []
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        line = process.stdout.readline()
        if not line:
            break
        read.append(line)
        if any(wanted in line for wanted in lines):
            return read
    said = process.communicate(timeout=10)[1] if not line else ""
    raise AssertionError(f"none of {lines} within {deadline:g} s; read {''.join(read)!r}; {said}")
