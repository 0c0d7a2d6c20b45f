"""Work that is given up as soon as a process that it needs has ended, instead of waiting for deadlines to pass."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any

from clusters.errors import MemberDied
from clusters.member import Watched

DOWN_POLL = 0.05
"""Seconds between two looks at whether a process that was taken down has been started again."""

DEATH_SEEN = 0.5
"""Seconds that the end of a process may take to show after its connections broke."""


async def while_all_live(work: Coroutine[Any, Any, None], processes: Sequence[Watched]) -> None:
    """Do `work`; cancel it and raise MemberDied as soon as one of the processes ends by itself.

    A stopped process lives; one that cannot be seen from here is not watched; one that was killed or stopped by us may
    be started again meanwhile.
    """
    working = asyncio.create_task(work)
    deaths = [asyncio.create_task(_death(process)) for process in processes if process.process is not None]
    try:
        done, _ = await asyncio.wait([working, *deaths], return_when=asyncio.FIRST_COMPLETED)
        if deaths and working in done and not working.cancelled() and working.exception() is not None:
            # A process that dies closes its connections first; it has ended a moment later.
            more, _ = await asyncio.wait(deaths, timeout=DEATH_SEEN, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        # A death explains an error of the work that came in the same moment, never the other way round.
        for task in [*(death for death in deaths if death in done), working]:
            if task in done:
                task.result()
    finally:
        for task in [working, *deaths]:
            task.cancel()
        await asyncio.gather(working, *deaths, return_exceptions=True)


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once. The first error cancels the rest and is raised as it is, not as a group of one."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _death(process: Watched) -> None:
    """Returns never while the process lives, or is down because it was taken down here; raises MemberDied with its
    last words when it has ended otherwise."""
    while True:
        life = process.process
        await _ended(process)
        # Whoever started it again may have been faster than this look at it.
        if process.process == life and not process.ended_here:
            raise MemberDied(process.name, process.exit_code(), process.last_words())
        while process.ended_here:  # noqa: ASYNC110 - whoever starts it knows nothing of those who watch it
            await asyncio.sleep(DOWN_POLL)


async def _ended(process: Watched) -> None:
    """Until this life of the process is over."""
    ended = asyncio.Event()
    descriptor: int | None = None
    life = process.process
    assert life is not None
    try:
        descriptor = os.pidfd_open(life.pid)
    except ProcessLookupError:
        ended.set()
    # Looked at after the descriptor is open: a pid that was used again must not be watched.
    if process.process != life or not process.running():
        ended.set()
    loop = asyncio.get_running_loop()
    try:
        if descriptor is not None:
            loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        if descriptor is not None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
