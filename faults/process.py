"""A member's process as what a fault strikes: whether it can be, how its end is undone, what the kernel says of it.

Which signal has which effect, the faults know.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

from clusters.errors import ClusterError
from clusters.guard import Process, SignalProcess, StartProcess, Undo
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
    if not isinstance(target, LocalMember):
        return f"{target.name} is not a process of this machine"
    if target.process is None or not target.running():
        return f"{target.name} is not running"
    if target.frozen():
        return f"{target.name} is frozen already, and not by this run"
    return None


def local(target: Member) -> LocalMember:
    assert isinstance(target, LocalMember)
    return target


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
    server = local(target)
    assert server.process is not None
    return SignalProcess(server.process, int(signal.SIGCONT))


async def thawed(target: Member) -> None:
    """Let it go on, and see that it does. Raises HealFailed."""
    target.thaw()
    if not await comes(lambda: not target.frozen(), HEAL_DEADLINE):
        raise HealFailed(f"{target.name} is still stopped {HEAL_DEADLINE:g} s after SIGCONT")


def start_again(target: Member) -> Undo:
    """It runs, in a new life."""
    server = local(target)
    assert server.process is not None
    return StartProcess(server.command, str(server.log), server.token, server.process)


async def started(target: Member, ended: Process | None) -> None:
    """It runs and answers, in another life than `ended`, which may be about to end yet. Raises HealFailed."""
    server = local(target)
    try:
        if ended is not None and server.process == ended:
            await server.kill()
        if not server.running():
            await server.start(deadline=START_DEADLINE)
    except ClusterError as error:
        raise HealFailed(f"{server.name} cannot be started again: {error}") from error


def gone(target: Member) -> Evidence:
    """That its process has ended and nobody listens in its place. Raises Unproven."""
    server = local(target)
    port = int(server.listens.rpartition(":")[2])
    if server.running():
        raise Unproven(f"{server.name} runs: {server.process} has not ended")
    if not free(port):
        raise Unproven(f"{server.name} has ended, but somebody listens at {server.listens}")
    return Evidence(
        f"{server.process} of {server.name} is gone and nobody listens at {server.listens}",
        {"host": server.host, "pid": server.process.pid if server.process else None, "exit_code": server.exit_code()},
    )
