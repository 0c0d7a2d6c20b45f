"""One member of a cluster: started, stopped, killed, frozen and thawed; and the local process that is one.

Knows a single mongod, not the set it is in. `frozen` is read from the kernel, never remembered.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pymongo import AsyncMongoClient

from clusters import admin
from clusters.errors import ClusterError, MemberDied
from clusters.guard import STOPPED, TOKEN_VARIABLE, Process, identify, send_signal, state
from clusters.topology import MemberSpec

LAST_WORDS = 3
WORDS_LENGTH = 200


_children: list[subprocess.Popen[bytes]] = []


def reap() -> None:
    """Collect the exit codes of children that have ended, by whoever's hand; else they stay as zombies."""
    _children[:] = [child for child in _children if child.poll() is None]


class Member(Protocol):
    """What faults, watchers and scenarios may ask of a member, whoever provides it."""

    spec: MemberSpec
    host: str

    @property
    def name(self) -> str: ...

    def freeze(self) -> None:
        """Stop it where it stands (SIGSTOP or the container's pause). It stays connected and answers nothing."""

    def thaw(self) -> None:
        """Let it go on. Harmless when it is not frozen."""

    def frozen(self) -> bool:
        """Whether it is stopped, as the kernel says."""

    def running(self) -> bool:
        """Whether the process exists (a frozen one does)."""

    async def kill(self, *, deadline: float = ...) -> None:
        """SIGKILL, and wait until it is gone."""

    async def start(self, *, deadline: float = ...) -> None:
        """Start it again after it was killed, and wait until it says hello. Raises ClusterError."""

    def log_lines(self, since: float = 0.0) -> list[str]:
        """The lines of its log; with `since` (seconds since the epoch) those written after."""

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        """A driver connected to this member alone."""


class Watched(Protocol):
    """A server that we started ourselves, whose end is noticed."""

    host: str
    process: Process | None
    """None where it was not started yet, or runs where its process cannot be seen."""
    ended_here: bool
    listens: str
    """Its own `address:port` on this machine."""

    @property
    def name(self) -> str: ...

    def running(self) -> bool: ...

    def exit_code(self) -> int | None:
        """Once it has ended; negative where a signal ended it."""

    def last_words(self) -> list[str]:
        """The last lines of its log, the grave ones if there are any."""

    def keep_log(self, path: Path) -> None:
        """Write its log to a file; nothing where it has none. Raises OSError."""


class Server(Member, Watched, Protocol):
    """A member, or the router, that we started ourselves: a process or a container."""

    @property
    def name(self) -> str: ...

    async def stop(self, *, deadline: float = ...) -> None:
        """SIGTERM, and wait until it is gone."""


class LocalProcess:
    """A server process on this machine, in a session of its own so that Ctrl-C does not reach it."""

    def __init__(
        self,
        name: str,
        host: str,
        command: list[str],
        log: Path,
        token: str,
        *,
        at_first: Sequence[str] = (),
        process: Process | None = None,
        listens: str | None = None,
    ) -> None:
        """`host` is the `address:port` under which everybody reaches it, `listens` its own where a proxy stands before
        it; `at_first` are arguments of the first start alone."""
        self.name = name
        self.host = host
        self.listens = listens or host
        self.command = command
        self.log = log
        self.token = token
        self.process = process
        self.ended_here = False
        """Whether `kill` or `stop` ended it, so that its end is nobody's surprise; until it is started again."""
        self._at_first = at_first
        self._child: subprocess.Popen[bytes] | None = None

    def spawn(self) -> Process:
        """Start it. The ledger must know the token by now and be told the identity this gives back."""
        arguments, self._at_first = [*self.command, *self._at_first], ()
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env={**os.environ, TOKEN_VARIABLE: self.token},
            )
        _children.append(self._child)
        self.process = identify(self._child.pid)
        self.ended_here = False
        return self.process

    async def start(self, *, deadline: float = 60) -> None:
        """Start it again after `kill` or `stop`, and wait until it says hello. Raises ClusterError.

        It bears the same token, by which the ledger and the guardian know it also in its new life.
        """
        if self.running():
            raise ClusterError(f"{self.name} runs already; kill or stop it first")
        self.spawn()
        await answers(self, deadline)

    def running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self.process is not None and state(self.process) is not None

    def frozen(self) -> bool:
        return self.process is not None and state(self.process) in STOPPED

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            send_signal(self.process, number)

    async def kill(self, *, deadline: float = 10) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.ended_here = True
        self._signal(signal.SIGKILL)
        await self._gone(deadline)

    async def stop(self, *, deadline: float = 30) -> None:
        """SIGTERM, and wait until the process is gone."""
        self.ended_here = True
        self.thaw()
        self._signal(signal.SIGTERM)
        await self._gone(deadline)

    async def _gone(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        while self.running():
            if time.monotonic() > end:
                raise ClusterError(f"{self.name} did not end within {deadline:g} s of the signal")
            await asyncio.sleep(0.005)

    def exit_code(self) -> int | None:
        """Of a child of this process that has ended; else None."""
        return self._child.poll() if self._child is not None else None

    def log_lines(self, since: float = 0.0) -> list[str]:
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return []
        if since <= 0:
            return lines
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        return [line for line in lines if _written_at(line) >= stamp]

    def last_words(self) -> list[str]:
        return last_words(self.log_lines())

    def keep_log(self, path: Path) -> None:
        if self.log.is_file():
            shutil.copyfile(self.log, path)


class LocalMember(LocalProcess):
    """A mongod on this machine, or the router, which is asked and broken in the same ways."""

    def __init__(self, spec: MemberSpec, host: str, command: list[str], log: Path, token: str, **more: Any) -> None:
        super().__init__(spec.name, host, command, log, token, **more)
        self.spec = spec

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(f"mongodb://{self.host}/", directConnection=True, **options)


async def answers(started: Watched, deadline: float) -> None:
    """Wait until it says hello. Raises MemberDied where it has ended instead, else ClusterError."""
    try:
        (await admin.connect(started.host, deadline=deadline, alive=started.running)).close()
    except ClusterError as error:
        if started.running():
            raise
        raise MemberDied(started.name, started.exit_code(), started.last_words()) from error


def last_words(lines: Sequence[str]) -> list[str]:
    """The last lines of a log, errors first if there are any: the message and what goes with it."""
    telling = [line for line in lines if not _says_nothing(line)]
    grave = [line for line in telling if '"s":"E"' in line or '"s":"F"' in line]
    return [_words(line) for line in (grave or telling or lines)[-LAST_WORDS:]]


def _written_at(line: str) -> str:
    """The UTC second of a server log line (`{"t":{"$date":"2026-01-01T00:00:00.000+00:00"}`), or nothing."""
    return line[15:34] if line.startswith('{"t":{"$date":"') else ""


def _says_nothing(line: str) -> bool:
    """That it aborts, and by which signal, as a server writes after every fatal reason; and each request, where its log
    has them all."""
    return any(f'"id":{number},' in line for number in (23090, 6384300, 51803))


def _words(line: str) -> str:
    """A log line without its time, component and context; as it is where it is not the server's JSON."""
    try:
        fields = json.loads(line)
        return f"{fields['msg']} {json.dumps(fields.get('attr', {}))}"[:WORDS_LENGTH]
    except (ValueError, KeyError, TypeError):
        return line[:WORDS_LENGTH]
