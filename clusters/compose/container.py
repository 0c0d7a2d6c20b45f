"""One member as a container: started, stopped, killed, paused; the container's first process is the server.

Whether it is stopped the kernel says, by the control group that the engine freezes or by the process state. Where the
engine's processes cannot be seen (Docker Desktop, an engine elsewhere) `process` is None, and the engine is believed.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient

from clusters.compose import engine
from clusters.errors import ClusterError
from clusters.guard import STOPPED, Process, ReconnectContainer, identify, state
from clusters.guard.containers import networks
from clusters.member import answers, last_words
from clusters.topology import MemberSpec
from clusters.wire import addresses

POLL: Final = 0.01
CGROUPS: Final = Path("/sys/fs/cgroup")


class ContainerMember:
    """A mongod or mongos in a container (see `clusters.member.Server`). `host` is the name its set knows it by,
    `listens` where it is published on this machine."""

    def __init__(self, spec: MemberSpec, host: str, container: str, *, listens: str) -> None:
        """`container` is its id. Raises EngineFailed where no engine answers."""
        self.spec = spec
        self.host = host
        self.container = container
        self.listens = listens
        self.ended_here = False
        """See `clusters.member.LocalProcess`."""
        self.process: Process | None = None
        self._look()

    @property
    def name(self) -> str:
        return self.spec.name

    def freeze(self) -> None:
        """Pause the container: all of its processes, by its control group. Raises ClusterError, as do the others."""
        engine.pause(self.container)

    def halt(self) -> None:
        """SIGSTOP to the server alone."""
        engine.signal(self.container, "STOP")

    def thaw(self) -> None:
        if self._state().get("Paused"):
            engine.unpause(self.container)
        engine.signal(self.container, "CONT")

    def frozen(self) -> bool:
        return self.stillness() is not None

    def stillness(self) -> str | None:
        """By what the kernel shows that it is stopped, None where it is not."""
        if self.process is None:
            return "paused, as the engine says" if self._state().get("Paused") else None
        letter = state(self.process)
        if letter in STOPPED:
            return f"process state {letter}"
        return None if letter is None else frozen_group(self.process.pid)

    def running(self) -> bool:
        if self.process is None:
            return bool(self._state().get("Running"))
        return state(self.process) is not None

    def life(self) -> str:
        """When it was started last, as the engine has it."""
        return str(self._state().get("StartedAt", ""))

    async def kill(self, *, deadline: float = 10) -> None:
        self.ended_here = True
        await asyncio.to_thread(engine.signal, self.container, "KILL")
        await self._gone(deadline)

    async def stop(self, *, deadline: float = 30) -> None:
        """SIGTERM, and wait until it is gone."""
        self.ended_here = True
        await asyncio.to_thread(self.thaw)
        await asyncio.to_thread(engine.signal, self.container, "TERM")
        await self._gone(deadline)

    async def start(self, *, deadline: float = 60) -> None:
        """It keeps its name, its address, its published port and its data."""
        if self.running():
            raise ClusterError(f"{self.name} runs already; kill or stop it first")
        await asyncio.to_thread(engine.start, self.container)
        self._look()
        self.ended_here = False
        await answers(self, deadline)

    async def _gone(self, deadline: float) -> None:
        """The kernel knows first, and the engine must know too before it starts it again."""
        end = time.monotonic() + deadline
        while self.running() or self._state().get("Running"):
            if time.monotonic() > end:
                raise ClusterError(f"{self.name} did not end within {deadline:g} s of the signal")
            await asyncio.sleep(POLL)

    def exit_code(self) -> int | None:
        """Negative where it was a signal that ended it."""
        found = self._state()
        if not found or found.get("Running"):
            return None
        code = int(found.get("ExitCode", 0))
        return 128 - code if code > 128 else code

    def endpoint(self) -> ReconnectContainer | None:
        """How it is on its network: what connects it again in the same way. None where it is on none, or on several."""
        found = networks(engine.inspect(self.container) or {})
        if len(found) != 1:
            return None
        ((network, one),) = found.items()
        return ReconnectContainer(self.container, network, one.get("Aliases") or (), one["IPAddress"])

    def log_lines(self, since: float = 0.0) -> list[str]:
        try:
            return engine.logs(self.container, since).splitlines()
        except engine.EngineFailed:
            return []

    def last_words(self) -> list[str]:
        return last_words(self.log_lines())

    def keep_log(self, path: Path) -> None:
        """Write its log to a file."""
        path.write_text("".join(f"{line}\n" for line in self.log_lines()))

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(f"mongodb://{addresses.of(self.host)}/", directConnection=True, **options)

    def _look(self) -> None:
        """Find the process of its present life, if it can be seen from here."""
        self.process = process_of(self.container, int(self._state().get("Pid") or 0)) or self.process

    def _state(self) -> dict[str, Any]:
        """What the engine says; nothing of one that is gone."""
        found = engine.inspect(self.container)
        return dict(found["State"]) if found else {}


def condition(container: str) -> str:
    """`running`, `frozen` or `gone`, `unknown` where no engine can be asked."""
    try:
        found = engine.inspect(container)
    except engine.EngineFailed:
        return "unknown"
    if found is None or not found["State"]["Running"]:
        return "gone"
    process = process_of(container, int(found["State"]["Pid"]))
    stopped = process is not None and state(process) in STOPPED
    return "frozen" if stopped or found["State"]["Paused"] else "running"


def process_of(container: str, pid: int) -> Process | None:
    """What the engine says is a container's first process, where it is one of this machine: in its control group."""
    try:
        process = identify(pid)
        seen = container in Path(f"/proc/{pid}/cgroup").read_text()
    except (OSError, ValueError):
        return None
    return process if pid and seen else None


def frozen_group(pid: int) -> str | None:
    """By what file of its control group, of either version, the kernel shows that a process is frozen (cgroups(7))."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        for controllers, path in (line.split(":", 2)[1:] for line in lines):
            group = path.lstrip("/")
            if "freezer" in controllers.split(","):
                file = CGROUPS / "freezer" / group / "freezer.state"
                return f"{file} is FROZEN" if file.read_text().strip() == "FROZEN" else None
        for controllers, path in (line.split(":", 2)[1:] for line in lines):
            if not controllers:
                file = CGROUPS / path.lstrip("/") / "cgroup.events"
                return f"{file} has frozen 1" if "frozen 1" in file.read_text().splitlines() else None
    except OSError:
        return None
    return None
