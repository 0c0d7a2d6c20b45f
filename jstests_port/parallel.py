"""Upstream's parallel shell (`startParallelShell`) as a task: it goes on beside the test, and is joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
JOIN_DEADLINE = 60.0
"""Seconds that a joined shell may still take."""


class ParallelShell(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    def done(self) -> bool:
        return self._task.done()

    async def join(self, *, deadline: float = JOIN_DEADLINE) -> T:
        """What it came to. Raises what it raised, and AssertionError where it is not done in `deadline` seconds."""
        done, _ = await asyncio.wait([self._task], timeout=deadline)
        assert done, f"the parallel shell {self._task.get_name()} is not done after {deadline:g} s"
        return await self._task


@asynccontextmanager
async def parallel_shell(work: Coroutine[Any, Any, T], name: str = "work") -> AsyncIterator[ParallelShell[T]]:
    """`work` runs beside the block, and is joined at its end; where the block fails, it is cancelled."""
    task = asyncio.create_task(work, name=name)
    shell = ParallelShell(task)
    try:
        yield shell
        await shell.join()
    finally:
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
