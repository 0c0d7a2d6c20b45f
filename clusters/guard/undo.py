"""What can be undone: a closed set of primitives, each plain data that another process can carry out later.

They know processes, directories, control groups and commands; which fault or member they belong to is not their
business. Those on containers are in `containers` and `namespaces`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clusters.guard import cgroups, commands, directories
from clusters.guard.containers import (
    ContinueContainer,
    LimitContainer,
    ReconnectContainer,
    RemoveContainers,
    StartContainer,
)
from clusters.guard.errors import UndoFailed
from clusters.guard.namespaces import RemoveChain, RemoveDiscipline
from clusters.guard.process import TOKEN_VARIABLE, Process, find_by_tokens, send_signal, state, wait_gone

SPAWN_GRACE = 0.5
"""Seconds during which a process of which only the token is known, or that is gone and may just have been started
again, is looked for: between fork and the end of exec it does not bear the token yet."""
PAUSE = 0.01
"""Seconds between two looks at /proc, which announces nothing."""


@dataclass(frozen=True, slots=True)
class SignalProcess:
    """Send a signal: SIGCONT to a process that was stopped. `signal` is its number."""

    process: Process
    signal: int

    def undo(self, deadline: float) -> None:
        end = time.monotonic() + deadline
        sig = signal.Signals(self.signal)
        while True:
            try:
                if not send_signal(self.process, sig):
                    return
            except PermissionError:
                raise UndoFailed(f"{self.process}: may not be signalled, it belongs to another user") from None
            # A tracer ("t"), or somebody who stops it again, can keep it stopped.
            if sig is not signal.SIGCONT or (letter := state(self.process)) is None or letter not in "Tt":
                return
            if time.monotonic() > end:
                raise UndoFailed(f"{self.process}: still stopped (state {letter}) after {sig.name}")
            time.sleep(PAUSE)

    def __str__(self) -> str:
        return f"{signal.Signals(self.signal).name} to {self.process}"


@dataclass(frozen=True, slots=True)
class KillProcess:
    """SIGKILL a process, and all that bear its token in their environment (a wrapper's children; a spawn of which
    nothing but the token was written down yet). A token of its own for each process: all that bear it die."""

    process: Process | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if self.process is None and not self.token:
            raise ValueError("to kill a process its identity or its token must be known")

    def undo(self, deadline: float) -> None:
        for reason in kill([self], deadline):
            if reason is not None:
                raise UndoFailed(reason)

    def __str__(self) -> str:
        return f"kill {self.process or f'what bears token {self.token}'}"


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start a server again that was killed; not if a process bears its token, which it had before as well.

    `process` the life that was to end, ended for certain first: a server that was told to end may do so much later.
    """

    command: Sequence[str]
    log: str
    token: str
    process: Process | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", tuple(self.command))

    def undo(self, deadline: float) -> None:
        if self.process is not None:
            KillProcess(self.process).undo(deadline)
        # One that dies bears its token for a moment longer, one just started not yet; neither is announced.
        time.sleep(min(SPAWN_GRACE, deadline))
        if find_by_tokens([self.token])[self.token]:
            return
        try:
            os.posix_spawnp(
                self.command[0],
                list(self.command),
                {**os.environ, TOKEN_VARIABLE: self.token},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            raise UndoFailed(f"{self.command[0]} cannot be started: {error.strerror}") from None

    def __str__(self) -> str:
        return f"start {Path(self.command[0]).name} that bears token {self.token}"


@dataclass(frozen=True, slots=True)
class RemoveDirectory:
    """Remove a directory that bears our marker (`directories.make_directory`)."""

    path: str

    def __post_init__(self) -> None:
        if not Path(self.path).is_absolute():
            raise ValueError(f"expected an absolute path of a directory to remove, found {self.path!r}")

    def undo(self, deadline: float) -> None:
        directories.remove_directory(Path(self.path), deadline)

    def __str__(self) -> str:
        return f"remove {self.path}"


@dataclass(frozen=True, slots=True)
class FailPointOff:
    """Switch a fail point off on one server (`address:port`)."""

    host: str
    name: str

    def undo(self, deadline: float) -> None:
        commands.fail_point_off(self.host, self.name, deadline)

    def __str__(self) -> str:
        return f"fail point {self.name} off on {self.host}"


@dataclass(frozen=True, slots=True)
class FsyncUnlock:
    """Let go of an fsyncLock of one server (`address:port`)."""

    host: str

    def undo(self, deadline: float) -> None:
        commands.fsync_unlock(self.host, deadline)

    def __str__(self) -> str:
        return f"fsyncUnlock on {self.host}"


@dataclass(frozen=True, slots=True)
class RemoveRule:
    """Take a rule of a proxy back, by its name; `control` is the proxy's control address (`address:port`)."""

    control: str
    name: str

    def undo(self, deadline: float) -> None:
        commands.remove_rule(self.control, self.name, deadline)

    def __str__(self) -> str:
        return f"rule {self.name!r} off at proxy {self.control}"


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a command, given as extended JSON, on one server. It must bear being run twice.

    `in_memory`: it puts right what nothing but the process holds, so that one that is gone needs it no more.
    """

    host: str
    database: str
    command: Mapping[str, Any]
    in_memory: bool = False

    def undo(self, deadline: float) -> None:
        commands.run_extended(self.host, self.database, self.command, deadline, in_memory=self.in_memory)

    def __str__(self) -> str:
        return f"{next(iter(self.command), 'nothing')} on {self.host}"


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Put fields (`tags`, `priority`, `votes`, `hidden`) of members, named by host, back into a set's configuration."""

    hosts: Sequence[str]
    set_name: str
    members: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))

    def undo(self, deadline: float) -> None:
        commands.reconfigure(
            self.hosts, self.set_name, lambda config: commands.put_back(config, self.members), deadline
        )

    def __str__(self) -> str:
        return f"reconfigure {self.set_name} for {', '.join(self.members)}"


@dataclass(frozen=True, slots=True)
class AddMember:
    """Take a member into a set's configuration again, as it was in it (`member`, as `replSetGetConfig` had it)."""

    hosts: Sequence[str]
    set_name: str
    member: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))

    def undo(self, deadline: float) -> None:
        commands.reconfigure(self.hosts, self.set_name, lambda config: commands.add(config, self.member), deadline)

    def __str__(self) -> str:
        return f"add {self.member['host']} to {self.set_name}"


@dataclass(frozen=True, slots=True)
class EndStepDown:
    """Let a server (`address:port`) that stepped down be elected again before its time is over."""

    host: str

    def undo(self, deadline: float) -> None:
        commands.end_step_down(self.host, deadline)

    def __str__(self) -> str:
        return f"end of the step-down of {self.host}"


@dataclass(frozen=True, slots=True)
class RemoveCgroup:
    """Move the processes in a control group that we made (see `cgroups`) to `back`, and remove it."""

    path: str
    back: str

    def __post_init__(self) -> None:
        cgroups.check(self.path)

    def undo(self, deadline: float) -> None:
        cgroups.remove(Path(self.path), Path(self.back), deadline)

    def __str__(self) -> str:
        return f"remove {self.path}"


OfServer = FailPointOff | FsyncUnlock | RunCommand | Reconfigure | AddMember | EndStepDown
"""Those that send commands to a server, for which it must be one that pymongo talks to."""

Undo = (
    SignalProcess
    | KillProcess
    | StartProcess
    | RemoveDirectory
    | FailPointOff
    | FsyncUnlock
    | RemoveRule
    | RunCommand
    | Reconfigure
    | AddMember
    | EndStepDown
    | RemoveCgroup
    | RemoveContainers
    | ContinueContainer
    | StartContainer
    | ReconnectContainer
    | LimitContainer
    | RemoveDiscipline
    | RemoveChain
)

KINDS: Mapping[str, type[Undo]] = {
    "signal process": SignalProcess,
    "kill process": KillProcess,
    "start process": StartProcess,
    "remove directory": RemoveDirectory,
    "fail point off": FailPointOff,
    "fsync unlock": FsyncUnlock,
    "remove rule": RemoveRule,
    "run command": RunCommand,
    "reconfigure": Reconfigure,
    "add member": AddMember,
    "end step-down": EndStepDown,
    "remove cgroup": RemoveCgroup,
    "remove containers": RemoveContainers,
    "continue container": ContinueContainer,
    "start container": StartContainer,
    "reconnect container": ReconnectContainer,
    "limit container": LimitContainer,
    "remove discipline": RemoveDiscipline,
    "remove chain": RemoveChain,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


def to_plain(undo: Undo) -> dict[str, Any]:
    """As JSON-able data; `do` names the primitive."""
    return {"do": _NAMES[type(undo)], **asdict(undo)}


def from_plain(plain: Mapping[str, Any]) -> Undo:
    """The reverse of `to_plain`. Raises ValueError."""
    fields = dict(plain)
    name = fields.pop("do", None)
    if name not in KINDS:
        raise ValueError(f"expected an undo record of a known kind, found {name!r}")
    try:
        if isinstance(fields.get("process"), Mapping):
            fields["process"] = Process(**fields["process"])
        return KINDS[name](**fields)
    except TypeError as error:
        raise ValueError(f"undo record {name!r}: {error}") from None


def kill(undos: Sequence[KillProcess], deadline: float) -> list[str | None]:
    """Kill all of them at once and wait for them together; for each, None or why it is not gone."""
    end = time.monotonic() + deadline
    unseen = any(undo.process is None or state(undo.process) is None for undo in undos if undo.token)
    grace = time.monotonic() + (SPAWN_GRACE if unseen else 0)
    while True:
        targets = alive(undos)
        everyone = {process for processes in targets for process in processes}
        if not everyone and time.monotonic() >= min(grace, end):
            return [None] * len(undos)
        refused = set()
        for process in everyone:
            try:
                send_signal(process, signal.SIGKILL)
            except PermissionError:
                refused.add(process)
        left = set(wait_gone(everyone - refused, end - time.monotonic()))
        if left or refused or (everyone and time.monotonic() > end):
            return [_why(processes & (left | refused), refused, deadline) for processes in targets]
        if not everyone:
            time.sleep(PAUSE)


def alive(undos: Sequence[KillProcess]) -> list[set[Process]]:
    """For each, the processes it would kill now."""
    by_token = find_by_tokens({undo.token for undo in undos if undo.token})
    return [
        {process for process in (undo.process, *by_token.get(undo.token or "", ())) if process and state(process)}
        for undo in undos
    ]


def _why(processes: set[Process], refused: set[Process], deadline: float) -> str | None:
    for process in processes:
        if process in refused:
            return f"{process}: may not be killed, it belongs to another user"
        if letter := state(process):
            return f"{process}: still there (state {letter}) {deadline:.1f} s after SIGKILL"
    return None
