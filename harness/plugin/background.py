"""A thread with an event loop of its own, on which clusters live whatever loops the tests have, or have not.

Work is given to it from threads and from coroutines of other loops; what was begun is ended before the giver goes on.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from threading import Event, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

ENDED_WITHIN = 120.0
"""Seconds that work which is given up has to put back what it began: a bring-up, a heal."""


class Background:
    """The thread is a daemon: where pytest is ended without a word, guardians do what is left to do."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mongofault", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What it comes to, from a thread. Interrupted (Ctrl-C, a time limit): it is cancelled, and its end awaited."""
        future, ended = self._begun(work)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(ENDED_WITHIN)
            raise

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """The same from a coroutine of another loop. A cancelled caller goes on when the work has ended."""
        future, _ = self._begun(work)
        waiting = asyncio.ensure_future(asyncio.wrap_future(future))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDED_WITHIN):
                    await asyncio.wait([waiting])
            raise

    def close(self) -> None:
        """End the thread; nothing may be under way."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENDED_WITHIN)
        self._loop.close()

    def _begun(self, work: Coroutine[Any, Any, T]) -> tuple[concurrent.futures.Future[T], Event]:
        ended = Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        return asyncio.run_coroutine_threadsafe(watched(), self._loop), ended


class Visit(Generic[T]):
    """An async context manager, entered and left by calls; both happen in one task, as if it were a block."""

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> T:
        entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def stay() -> None:
            async with self._manager as value:
                entered.set_result(value)
                await self._leave.wait()

        self._task = asyncio.create_task(stay())
        try:
            either: list[asyncio.Future[Any]] = [entered, self._task]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not entered.done():
            task, self._task = self._task, None
            await task  # raises what entering raised
        return entered.result()

    async def leave(self) -> None:
        """Raises what leaving it raises; a second call does nothing."""
        task, self._task = self._task, None
        self._leave.set()
        if task is not None:
            await task
