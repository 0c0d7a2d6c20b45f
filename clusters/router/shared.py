"""One run of an action for all who asked before it began: a thousand who come at once cost two runs, not as many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Shared(Generic[Result]):
    def __init__(self, action: Callable[[], Awaitable[Result]]) -> None:
        self._action = action
        self._running: asyncio.Task[Result] | None = None
        self._next: asyncio.Task[Result] | None = None

    async def fresh(self) -> Result:
        """What the action gives when it is begun after this call. Raises what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._running))
        # Shielded: others wait for the same.
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[Result] | None) -> Result:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._action()
