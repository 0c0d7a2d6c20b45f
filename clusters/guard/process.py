"""A process beyond doubt: its pid together with its start time and the boot it belongs to; signals, waiting, finding.

Linux only (/proc and pidfds). Knows nothing of ledgers or of what a process is for.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STOPPED = ("T", "t")
"""States of a process that was stopped by a signal or by a tracer (proc(5))."""

TOKEN_VARIABLE = "MONGOFAULT_TOKEN"
"""The environment variable that says which undo record a process belongs to."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process, not merely a pid: a pid is given to another process soon enough.

    `start_time` is in clock ticks since boot (field 22 of /proc/PID/stat, proc(5)).
    """

    pid: int
    start_time: int
    boot_id: str

    def __str__(self) -> str:
        return f"pid {self.pid}"


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    threads: int
    start_time: int


def new_token() -> str:
    """A value for TOKEN_VARIABLE that no other process has."""
    return os.urandom(16).hex()


def identify(pid: int) -> Process:
    """The process that has this pid now. Raises ProcessLookupError when none has."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return Process(pid, stat.start_time, _boot_id())


def state(process: Process) -> str | None:
    """The kernel's letter for its state (proc(5): R S D T t Z ..), None when it is gone.

    A zombie is gone, unless other threads of it are still at work: then its ports and files are still in use.
    """
    if process.boot_id != _boot_id():
        return None
    stat = _stat(process.pid)
    if stat is None or stat.start_time != process.start_time or stat.state in "Xx":
        return None
    if stat.state == "Z" and stat.threads <= 1:
        return None
    return stat.state


def send_signal(process: Process, sig: int) -> bool:
    """Send a signal; False when the process is gone. Never reaches another process that got its pid since."""
    fd = _pidfd(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, sig)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def wait_gone(processes: Iterable[Process], deadline: float) -> list[Process]:
    """Wait at most `deadline` seconds until they are gone; those that are still there."""
    end = time.monotonic() + deadline
    poll = select.poll()
    left: dict[int, Process] = {}
    try:
        for process in processes:
            fd = _pidfd(process)
            if fd is not None:
                left[fd] = process
                poll.register(fd, select.POLLIN)
        while left:
            remaining = end - time.monotonic()
            for fd, _event in poll.poll(max(0.0, remaining * 1000)):
                poll.unregister(fd)
                os.close(fd)
                del left[fd]
            if remaining <= 0:
                break
        return list(left.values())
    finally:
        for fd in left:
            os.close(fd)


def find_by_token(token: str) -> list[Process]:
    """The processes whose environment says MONGOFAULT_TOKEN=token, this one left out."""
    return find_by_tokens([token])[token]


def find_by_tokens(tokens: Collection[str]) -> dict[str, list[Process]]:
    """The same for many tokens in one walk through /proc. Processes of other users cannot be seen."""
    found: dict[str, list[Process]] = {token: [] for token in tokens}
    if not found:
        return found
    wanted = {f"{TOKEN_VARIABLE}={token}".encode(): token for token in found}
    myself = os.getpid()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or (pid := int(entry.name)) == myself:
            continue
        try:
            process = identify(pid)
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        for variable in environment.split(b"\0"):
            token = wanted.get(variable)
            if token is not None and state(process) is not None:
                found[token].append(process)
                break
    return found


def _pidfd(process: Process) -> int | None:
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # Looked at only now: if the pid is still its own, then it was so when the pidfd was taken.
    if state(process) is None:
        os.close(fd)
        return None
    return fd


def _stat(pid: int) -> _Stat | None:
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Field 2, the command, is in parentheses and may hold spaces and parentheses itself.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return _Stat(state=fields[0].decode(), threads=int(fields[17]), start_time=int(fields[19]))


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
