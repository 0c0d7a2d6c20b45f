"""A member's process as what a fault strikes: whether it can be, how its end is undone, what the kernel says of it.

It is one of this machine, by itself or the first of a container; the engine does to a container's what is done to it.

Which signal has which effect, the faults know.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence

from clusters.compose.container import ContainerMember
from clusters.errors import ClusterError
from clusters.guard import ContinueContainer, Process, SignalProcess, StartContainer, StartProcess, Undo, UndoFailed
from clusters.member import LocalMember, Member
from clusters.ports import free
from faults.base import Evidence, HealFailed, Unproven

POLL = 0.01
HEAL_DEADLINE = 5.0
"""Seconds until a process that may go on must be seen to."""
START_DEADLINE = 60.0
"""Seconds until a server that was started again says hello; half a second on a machine of one's own."""


def obstacle(target: Member) -> str | None:
    """Why its process cannot be struck, or None."""
    if not isinstance(target, LocalMember | ContainerMember):
        return f"{target.name} is not a process of this machine"
    if not target.running():
        return f"{target.name} is not running"
    if target.process is None:
        return f"{target.name} is in a container whose processes cannot be seen from here: nothing could be proven"
    if target.frozen():
        return f"{target.name} is frozen already, and not by this run"
    return None


def contained(target: Member) -> str | None:
    """Why what this fault does to a process is not done to a container, or None where it is none."""
    if isinstance(target, ContainerMember):
        return f"{target.name} is a container: this fault is for processes alone"
    return None


def server(target: Member) -> LocalMember | ContainerMember:
    assert isinstance(target, LocalMember | ContainerMember)
    return target


def pid(target: Member) -> int:
    """Of its process, which may have ended."""
    process = server(target).process
    assert process is not None
    return process.pid


async def undone(target: Member, undos: Sequence[Undo], deadline: float) -> None:
    """What the guardian would do, done here, each within `deadline` seconds. Raises HealFailed."""
    try:
        for one in undos:
            await asyncio.to_thread(one.undo, deadline)
    except UndoFailed as error:
        raise HealFailed(f"{target.name}: {error}") from error


async def comes(condition: Callable[[], bool], deadline: float) -> bool:
    """Whether it comes to be so by the deadline; the kernel tells nobody but the parent of most that it does."""
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(POLL)
    return True


def go_on(target: Member) -> Undo:
    """It is not stopped."""
    if isinstance(target, ContainerMember):
        return ContinueContainer(target.container)
    struck = server(target)
    assert struck.process is not None
    return SignalProcess(struck.process, int(signal.SIGCONT))


async def thawed(target: Member) -> None:
    """Let it go on, and see that it does. Raises HealFailed."""
    await asyncio.to_thread(target.thaw)
    if not await comes(lambda: not target.frozen(), HEAL_DEADLINE):
        raise HealFailed(f"{target.name} is still stopped {HEAL_DEADLINE:g} s after it was told to go on")


def start_again(target: Member) -> Undo:
    """It runs, in a new life."""
    if isinstance(target, ContainerMember):
        return StartContainer(target.container, target.life())
    assert isinstance(target, LocalMember)
    assert target.process is not None
    return StartProcess(target.command, str(target.log), target.token, target.process)


async def started(target: Member, ended: Process | None) -> None:
    """It runs and answers, in another life than `ended`, which may be about to end yet. Raises HealFailed."""
    struck = server(target)
    try:
        if ended is not None and struck.process == ended:
            await struck.kill()
        if not struck.running():
            await struck.start(deadline=START_DEADLINE)
    except ClusterError as error:
        raise HealFailed(f"{struck.name} cannot be started again: {error}") from error


def gone(target: Member) -> Evidence:
    """That its process has ended and nobody listens in its place. Raises Unproven."""
    struck = server(target)
    port = int(struck.listens.rpartition(":")[2])
    if struck.running():
        raise Unproven(f"{struck.name} runs: {struck.process} has not ended")
    if not free(port):
        raise Unproven(f"{struck.name} has ended, but somebody listens at {struck.listens}")
    return Evidence(
        f"{struck.process} of {struck.name} is gone and nobody listens at {struck.listens}",
        {"host": struck.host, "pid": struck.process.pid if struck.process else None, "exit_code": struck.exit_code()},
    )
