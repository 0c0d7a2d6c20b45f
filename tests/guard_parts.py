"""Real processes, ledgers and owners for the guard's tests. An owner is a Python child that a test may kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clusters.guard import TOKEN_VARIABLE, Process, identify, ledger_directory, state

ROOT = Path(__file__).parents[1]


def until(condition: Callable[[], object], deadline: float = 5.0, what: str = "the condition") -> None:
    """Wait for what nothing announces to a process that is not the parent."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true within {deadline:g} s"
        time.sleep(0.01)


@contextlib.contextmanager
def sleeper(token: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A child that does nothing for a minute, bearing `token`; it is gone when the block ends."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    if token is not None:
        environment[TOKEN_VARIABLE] = token
    child = subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def python(code: str, *arguments: object, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """A Python child that runs `code` with `clusters` importable."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def stopped(child: subprocess.Popen[bytes]) -> Process:
    """Stop a child; its identity, once the kernel says that it is stopped."""
    process = identify(child.pid)
    os.kill(child.pid, signal.SIGSTOP)
    until(lambda: state(process) == "T", what="the stop")
    return process


CLEAN_UP = 5.0
"""Seconds after its owner's death within which nothing may be left."""

OWNER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from clusters.guard import *

mode, name, data = sys.argv[1], sys.argv[2], Path(sys.argv[3])
ledger = Ledger.create(ledger_directory(name))
guardian = Guardian.start(ledger)
print("watched", guardian.pid, flush=True)
for number in range(20):
    path, token = new_path(data, "data-"), new_token()
    _, record = ledger.open_many([Opening(RemoveDirectory(str(path))), Opening(KillProcess(token=token))])
    make_directory(path)
    (path / "journal").mkdir()
    (path / "journal" / "file").write_text("x" * 10_000)
    child = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, TOKEN_VARIABLE: token}, start_new_session=True, cwd=path / "journal"
    )
    if mode == "lost spawn":
        os.kill(os.getpid(), signal.SIGKILL)
    process = identify(child.pid)
    ledger.update(record, KillProcess(process, token))
    if number % 2:
        fault = ledger.open(SignalProcess(process, signal.SIGCONT), "fault", "freeze")
        os.kill(child.pid, signal.SIGSTOP)
        if number % 4 == 1:
            os.kill(child.pid, signal.SIGCONT)
            ledger.close(fault)
    if mode == "few" and number == 3:
        break
if mode == "kept":
    ledger.keep()
print("up", flush=True)
if mode == "error":
    raise SystemExit("a bug")
time.sleep(60)
"""


@dataclass
class Owner:
    """A child that opens records and spawns as fast as it can, and what can be seen of it from outside."""

    child: subprocess.Popen[str]
    mark: str
    data: Path
    ledger: Path

    def wait_for(self, word: str) -> list[str]:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(word):
                return line.split()
        raise AssertionError(f"the owner ended before it said {word!r}")

    def processes(self) -> list[int]:
        """Every process that descends from it, guardian included, that is not gone."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0") and state(
                        identify(int(entry.name))
                    ):
                        found.append(int(entry.name))
        return found

    def remains(self) -> list[object]:
        return [*self.processes(), *self.data.iterdir(), *([self.ledger] if self.ledger.exists() else [])]

    def has_no_processes(self) -> None:
        until(lambda: not self.processes(), CLEAN_UP, "the end of all processes")

    def leaves_nothing(self) -> None:
        begin = time.monotonic()
        while remains := self.remains():
            assert time.monotonic() - begin < CLEAN_UP, f"left after {CLEAN_UP:g} s: {remains}\n{self.log()}"
            time.sleep(0.02)

    def log(self) -> str:
        try:
            return (self.ledger / "guardian.log").read_text()
        except OSError:
            return ""


@contextlib.contextmanager
def owner(tmp_path: Path, mode: str = "few", name: str = "one") -> Iterator[Owner]:
    data = tmp_path / f"data-{name}"
    data.mkdir()
    mark = f"GUARD_TEST={data}"
    os.environ["GUARD_TEST"] = str(data)
    try:
        with python(OWNER, mode, name, data) as child:
            del os.environ["GUARD_TEST"]
            one = Owner(child, mark, data, ledger_directory(name))
            try:
                yield one
            finally:
                child.kill()
                child.wait()
                for pid in one.processes():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    finally:
        os.environ.pop("GUARD_TEST", None)
