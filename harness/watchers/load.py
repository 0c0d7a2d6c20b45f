"""How slow the whole cluster is just now: time that a delivery may take without anything being stalled.

Pure: fed with the history. On an overloaded machine everything is late, writes and answers to a hello alike; what
stalls one member does not slow down the quickest of the others.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from harness.history import Event
from harness.measures import DELIVERY, NS

WINDOW: Final = 5 * NS
"""Nanoseconds that a measurement counts."""


class Load:
    """Slack in seconds from the quickest write and the quickest hello of late."""

    def __init__(self) -> None:
        self._invoked: dict[Any, int] = {}
        self._seconds: dict[str, deque[tuple[int, float]]] = {"write": deque(), "hello": deque()}

    def feed(self, event: Event) -> None:
        """Take in one event of the history; kinds it has no use for are passed over."""
        match event.kind:
            case "write.invoked":
                self._invoked[event["key"]] = event.t
            case "write.ok":
                invoked = self._invoked.pop(event["key"], event.t)
                self._seconds["write"].append((event.t, (event.t - invoked) / 1e9))
            case "canary" if event["probe"] == "hello" and event["ok"]:
                self._seconds["hello"].append((event.t, event["seconds"]))
            case _:
                pass

    def slack(self, now: int) -> float:
        """Seconds to allow for, 0.0 when nothing was measured of late."""
        quickest = []
        for measured in self._seconds.values():
            while measured and measured[0][0] < now - WINDOW:
                measured.popleft()
            if measured:
                quickest.append(min(seconds for _, seconds in measured))
        return DELIVERY * max(quickest, default=0.0)
