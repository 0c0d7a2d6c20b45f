"""motor, the second driver: pymongo's synchronous API run in threads. What is different about it stands here alone.

It knows the driver and nothing of streams or writes. Import it only where motor is asked for: it is an extra.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

WORKERS: Final = "10000"
"""A bound that is never reached. Every op takes a thread until it is answered, an idle stream's `try_next()` as well,
and motor has 5 threads for each core: more streams than that take turns, and events come late although nothing stalls.
MOTOR_MAX_WORKERS in the environment goes first, to see just that."""

os.environ.setdefault("MOTOR_MAX_WORKERS", WORKERS)

from motor.motor_asyncio import AsyncIOMotorClient  # noqa: E402  motor reads the bound when it is imported

Client = AsyncIOMotorClient[dict[str, Any]]


def open_client(uri: str, keywords: Mapping[str, Any]) -> Client:
    """A client of this loop, its listeners called in it."""
    listeners = [OnLoop(one) for one in keywords["event_listeners"]]
    return AsyncIOMotorClient(uri, **{**keywords, "event_listeners": listeners})


async def close(client: Client) -> None:
    """motor's own `close()` is synchronous: whatever it waits for, the loop would wait for as well."""
    await asyncio.to_thread(client.close)


class OnLoop(CommandListener):
    """A listener that is called in the loop it was made in, as pymongo's asynchronous client does, and not in the
    thread of the command. It hears of a command before whoever awaits it gets the answer."""

    def __init__(self, listener: CommandListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()

    def started(self, event: CommandStartedEvent) -> None:
        self._tell(self._listener.started, event)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._tell(self._listener.succeeded, event)

    def failed(self, event: CommandFailedEvent) -> None:
        self._tell(self._listener.failed, event)

    def _tell(self, listener: Callable[[Any], None], event: object) -> None:
        # A thread that nobody awaits any more may outlive the loop.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(listener, event)
