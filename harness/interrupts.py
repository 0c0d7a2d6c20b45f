"""Ctrl-C, SIGTERM, SIGHUP: the first ends the work in good order, healing included; a second is only answered."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from harness.output import complain

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The work was ended by a signal, in good order."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        super().__init__(f"interrupted by {number.name}; everything was healed and removed")


class _Interrupts:
    """What a signal does: cancels the work under way, if there is any; of one process there is one."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.work: tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]] | None = None
        self.quietly = False

    def on(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            self._say("healing; it takes a few seconds and is not skipped")
        elif self.work is None:
            raise KeyboardInterrupt
        else:
            self.received = signal.Signals(number)
            self._say(f"{self.received.name}: healing and removing, please wait")
            loop, task = self.work
            loop.call_soon_threadsafe(task.cancel)

    def _say(self, line: str) -> None:
        if not self.quietly:
            complain(line)


_interrupts = _Interrupts()


@contextmanager
def handled(*, for_good: bool = False) -> Iterator[None]:
    """Signals are answered here, from before the work to after the last line of its outcome.

    `for_good`: the process ends afterwards; then they are ignored, or one would still change its exit code.
    """
    _interrupts.received = None
    before = {number: signal.signal(number, _interrupts.on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if for_good else handler)


async def interruptible(work: Coroutine[Any, Any, Result], *, quietly: bool = False) -> Result:
    """Do `work` to its end. Raises Interrupted when a signal came, after the work has cleaned up.

    `quietly`: there is nothing to heal, and nothing is said of it.
    """
    _interrupts.quietly = quietly
    task = asyncio.ensure_future(work)
    _interrupts.work = asyncio.get_running_loop(), task
    try:
        return await task
    except asyncio.CancelledError:
        if _interrupts.received is None:
            raise
        raise Interrupted(_interrupts.received) from None
    finally:
        _interrupts.work = None
