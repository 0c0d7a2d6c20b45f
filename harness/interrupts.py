"""Ctrl-C and SIGTERM: the first ends the work in good order, healing included; a second is answered, not obeyed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from harness.output import complain

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The work was ended by a signal, in good order."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        super().__init__(f"interrupted by {number.name}; everything was healed and removed")


class Interrupts:
    """Turns a signal into the cancellation of one task."""

    def __init__(self) -> None:
        self._received: signal.Signals | None = None

    async def around(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do `work` to its end. Raises Interrupted when a signal came, after the work has cleaned up."""
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on, number, task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._received is None:
                raise
            raise Interrupted(self._received) from None
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _on(self, number: signal.Signals, task: asyncio.Future[Any]) -> None:
        if self._received is not None:
            complain("healing; it takes a few seconds and is not skipped")
            return
        self._received = number
        complain(f"{number.name}: healing and removing, please wait")
        task.cancel()
