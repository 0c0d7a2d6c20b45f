"""The guardian: a process of its own that outlives its owner by as long as it takes to undo what the ledger says.

It waits at the read end of a pipe whose write end only the owner has: the pipe ends when the owner does, however.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusters.guard.errors import GuardianFailed, LedgerError, LedgerGone
from clusters.guard.healing import undo_until_done
from clusters.guard.ledger import Ledger
from clusters.guard.process import TOKEN_VARIABLE

if TYPE_CHECKING:
    from subprocess import Popen

READY: Final = b"ready\n"
DONE: Final = b"done\n"
LOG: Final = "guardian.log"
LOCK_DEADLINE: Final = 30.0
"""Seconds to wait for the lock: somebody may be healing by hand."""
HEAL_DEADLINE: Final = 30.0
"""Seconds during which what fails is tried again."""


class Guardian:
    """The owner's end. Start it before anything that the ledger will speak of."""

    def __init__(self, process: Popen[bytes], pipe: int) -> None:
        self._process = process
        self._pipe: int | None = pipe

    @classmethod
    def start(cls, ledger: Ledger, deadline: float = 30.0) -> Guardian:
        """Start it and wait until it watches, at most `deadline` seconds. Raises GuardianFailed."""
        # Late: the guardian itself has no use for it, and it takes a while to import.
        import subprocess

        log = ledger.directory / LOG
        read_end, write_end = os.pipe()
        try:
            with log.open("ab") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "clusters.guard", str(ledger.directory)],
                    stdin=read_end,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(write_end)
            raise GuardianFailed(f"the guardian could not be started: {error.strerror}") from None
        finally:
            os.close(read_end)
        assert process.stdout is not None
        with process.stdout as ready:
            seen = b""
            end = time.monotonic() + deadline
            poll = select.poll()
            poll.register(ready, select.POLLIN)
            while seen != READY and poll.poll(max(0.0, end - time.monotonic()) * 1000):
                piece = os.read(ready.fileno(), len(READY))
                if not piece:
                    break
                seen += piece
        guardian = cls(process, write_end)
        if seen != READY:
            guardian._end(0)
            raise GuardianFailed(
                f"the guardian did not get ready within {deadline:g} s: {_last_line(log)}; nothing was started"
            )
        return guardian

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still watches. Without it a kill of the owner leaves everything behind."""
        return self._process.poll() is None

    def dismiss(self, deadline: float = 2.0) -> None:
        """End it without undoing anything: the owner has done so, or means the cluster to stay."""
        if self._pipe is not None:
            with suppress(BrokenPipeError):
                os.write(self._pipe, DONE)
        self._end(deadline)

    def _end(self, deadline: float) -> None:
        from subprocess import TimeoutExpired

        try:
            self._process.wait(deadline)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def watch(directory: Path) -> int:
    """The guardian's own life, in the process that `Guardian.start` starts. The exit code."""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    ledger = Ledger.load(directory, keep_open=True)
    _say_ready()
    if _told_to_go():
        return 0
    _log(f"the owner of {directory} is gone")
    try:
        ledger.hold(LOCK_DEADLINE)
        report = undo_until_done(ledger, HEAL_DEADLINE)
    except LedgerGone:
        return 0
    except LedgerError as error:
        _log(str(error))
        return 1
    except Exception:
        _log(traceback.format_exc())
        return 1
    for record in report.done:
        _log(f"undone: {record}")
    for failure in report.failed:
        _log(f"not undone: {failure}")
    return 1 if report.failed else 0


def _say_ready() -> None:
    """Tell the owner, and keep nothing of its own open but the pipe."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    owner = os.dup(1)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    with suppress(BrokenPipeError):  # The owner is gone already: then the pipe says so next.
        os.write(owner, READY)
    os.close(owner)


def _told_to_go() -> bool:
    """Wait for the end of the pipe; True if the owner said before that it is done."""
    said = b""
    while piece := os.read(0, 64):
        said += piece
        if said.endswith(DONE):
            return True
    return False


def _log(line: str) -> None:
    with suppress(OSError):
        print(time.strftime("%Y-%m-%dT%H:%M:%S"), line, file=sys.stderr, flush=True)


def _environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    root = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    return environment


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError as error:
        return str(error.strerror)
    return lines[-1] if lines else "it said nothing"
