"""Real processes, ledgers and owners for the guard's tests. An owner is a Python child that a test may kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from clusters.guard import TOKEN_VARIABLE, Process, identify, state

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
