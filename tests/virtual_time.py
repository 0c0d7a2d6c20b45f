"""An event loop whose clock jumps to the next timer instead of waiting for it: minutes of a consumer group in no time.

Only for code that waits for nothing but timers and other tasks.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Does not wait; tells the loop how long it would have waited."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everything waits, and no timer will end it")
            self.waited += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        self._held_up = 0.0
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.waited + self._held_up

    def hold_up(self, seconds: float) -> None:
        """What a loop that is blocked for so long finds afterwards: all timers of that time are due at once."""
        self._held_up += seconds


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
