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
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from clusters.compose import engine
from clusters.guard.errors import GuardianFailed, LedgerError, LedgerGone
from clusters.guard.healing import undo_until_done
from clusters.guard.ledger import Ledger
from clusters.guard.process import TOKEN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import Popen

READY: Final = b"ready\n"
DONE: Final = b"done\n"
LOG: Final = "guardian.log"
LOCK_DEADLINE: Final = 30.0
"""Seconds to wait for the lock: somebody may be healing by hand."""
HEAL_DEADLINE: Final = 30.0
"""Seconds during which what fails is tried again."""
RESTART_DEADLINE: Final = 2.0
"""Seconds within which one that was killed is replaced; on an idle machine it takes 0.2 s."""
RESTARTS: Final = 10
"""Of one owner: whoever kills it more often means it."""


class Guardian:
    """The owner's end. Start it before anything that the ledger will speak of.

    Should the guardian be killed, another one is started at once: a thread waits for its end.
    """

    def __init__(self, ledger: Ledger, process: Popen[bytes], pipe: int) -> None:
        self.replaced: Callable[[], None] | None = None
        """Called, from that thread, whenever another one has taken the place of one that was killed."""
        self._ledger = ledger
        self._process = process
        self._pipe: int | None = pipe
        self._mutex = Lock()
        self._over = False
        Thread(target=self._supervise, name="guardian's end", daemon=True).start()

    @classmethod
    def start(cls, ledger: Ledger, deadline: float = 30.0) -> Guardian:
        """Start it and wait until it watches, at most `deadline` seconds. Raises GuardianFailed."""
        return cls(ledger, *_started(ledger, deadline))

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        """Whether it watches. Without it a kill of the owner leaves everything behind.

        Where one was killed just now, the next one is waited for, RESTART_DEADLINE seconds at the most.
        """
        end = time.monotonic() + RESTART_DEADLINE
        while self._process.poll() is not None:
            if self._over or time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def dismiss(self, deadline: float = 2.0) -> None:
        """End it without undoing anything: the owner has done so, or means the cluster to stay."""
        with self._mutex:
            self._over = True
            if self._pipe is not None:
                with suppress(BrokenPipeError):
                    os.write(self._pipe, DONE)
            _end(self._process, deadline)
            if self._pipe is not None:
                os.close(self._pipe)
                self._pipe = None

    def _supervise(self) -> None:
        for _ in range(RESTARTS):
            _wait_for_end(self._process.pid)
            with self._mutex:
                if self._over:
                    return
                self._process.poll()
                try:
                    process, pipe = _started(self._ledger, RESTART_DEADLINE)
                except GuardianFailed:
                    break
                assert self._pipe is not None
                os.close(self._pipe)
                self._process, self._pipe = process, pipe
            if self.replaced is not None:
                self.replaced()
        self._over = True


def _started(ledger: Ledger, deadline: float) -> tuple[Popen[bytes], int]:
    """A process that watches over the ledger, and the write end of its pipe. Raises GuardianFailed."""
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
    if seen != READY:
        _end(process, 0)
        os.close(write_end)
        raise GuardianFailed(
            f"the guardian did not get ready within {deadline:g} s: {_last_line(log)}; nothing was started"
        )
    return process, write_end


def _end(process: Popen[bytes], deadline: float) -> None:
    from subprocess import TimeoutExpired

    try:
        process.wait(deadline)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for_end(pid: int) -> None:
    """Of a child, without collecting its exit code."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    finally:
        os.close(descriptor)


def watch(directory: Path) -> int:
    """The guardian's own life, in the process that `Guardian.start` starts. The exit code."""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    ledger = Ledger.load(directory, keep_open=True)
    _say_ready()
    if ledger.addresses:
        # Of containers, which are to be gone as soon as processes are: what takes half a second is done beforehand.
        engine.prepare()
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
    for failure in [*report.failed, *ledger.damage]:
        _log(f"not undone: {failure}")
    return 1 if report.failed or ledger.damage else 0


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
