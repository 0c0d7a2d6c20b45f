"""A line to one member for one question at a time; a question without an answer is kept, never asked twice.

For all who ask members that may be frozen or stalled: neither connections nor parked operations pile up on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from harness.measures import NS

CONNECT_DEADLINE = 3600.0
"""Seconds; not a deadline but its absence. A frozen member accepts in the kernel and shakes hands when it is thawed;
closing and dialling again would only fill its backlog. The asker's patience is what bounds the wait."""

APP_NAME: Final = "mongofault watcher"

PATIENCE: Final = 1.0
"""Seconds that a poll waits for its answer."""

FRESH: Final = 2 * NS
"""Nanoseconds that what a poll saw counts as present."""


class StillWaiting(Exception):
    """The question is out and has no answer yet; the line is `busy` until it has."""


class Line:
    """To one host; it connects when first used and after it broke. Close it at the end."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._connection: Connection | None = None
        self._question: asyncio.Task[dict[str, Any]] | None = None

    @property
    def busy(self) -> bool:
        """A question is unanswered."""
        return self._question is not None and not self._question.done()

    async def ask(self, database: str, document: Mapping[str, Any], *, patience: float) -> dict[str, Any]:
        """The reply, if it comes within `patience` seconds.

        Raises StillWaiting (the question stays out: check `busy` before asking again), CommandFailed (the member
        answered, with an error) or ConnectionLost.
        """
        if self.busy:
            raise StillWaiting(f"{self.host} owes an answer already")
        question = self._question = asyncio.create_task(self._put(database, document), name=f"question to {self.host}")
        # An answer that comes when nobody waits for it any more is dropped, whatever it is.
        question.add_done_callback(_forget)
        await asyncio.wait([question], timeout=patience)
        if not question.done():
            raise StillWaiting(f"no answer from {self.host} within {patience:g} s")
        return question.result()

    async def answered(self, *, patience: float) -> bool:
        """Whether the question that is out is answered within `patience` seconds."""
        if self._question is not None:
            await asyncio.wait([self._question], timeout=patience)
        return not self.busy

    async def close(self) -> None:
        if self._question is not None:
            self._question.cancel()
            with suppress(asyncio.CancelledError, CommandFailed, ConnectionLost, DeadlinePassed):
                await self._question
        if self._connection is not None:
            self._connection.close()

    async def _put(self, database: str, document: Mapping[str, Any]) -> dict[str, Any]:
        if self._connection is None or not self._connection.usable:
            try:
                self._connection = await Connection.open(self.host, deadline=CONNECT_DEADLINE, app_name=APP_NAME)
            except DeadlinePassed as error:
                raise ConnectionLost(str(error)) from error
        return await self._connection.command(database, document)


class Lines:
    """A line to each of several hosts, polled alike, none waiting for another's answer. Close them at the end."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        """`hosts` by the name that `poll`, `lost` and `pause` are given."""
        self._lines = {name: Line(host) for name, host in hosts.items()}

    async def watch(
        self,
        poll: Callable[[str, Line], Awaitable[None]],
        lost: Callable[[str], None],
        pause: Callable[[str], Awaitable[None]],
    ) -> None:
        """Until cancelled. `lost` is told when there is no answer to be had from one; `pause` is between two polls."""
        async with asyncio.TaskGroup() as tasks:
            for name, line in self._lines.items():
                tasks.create_task(_poll(name, line, poll, lost, pause), name=f"{poll.__qualname__} {name}")

    async def close(self) -> None:
        await asyncio.gather(*(line.close() for line in self._lines.values()))


async def paused(usual: float, urgent: float, is_urgent: Callable[[], bool]) -> None:
    """`usual` seconds, cut down to `urgent` ones as soon as something is urgent."""
    waited = 0.0
    while waited < (urgent if is_urgent() else usual):
        await asyncio.sleep(urgent / 2)
        waited += urgent / 2


async def _poll(
    name: str,
    line: Line,
    poll: Callable[[str, Line], Awaitable[None]],
    lost: Callable[[str], None],
    pause: Callable[[str], Awaitable[None]],
) -> None:
    while True:
        if line.busy:
            await line.answered(patience=PATIENCE)
        else:
            try:
                await poll(name, line)
            except (StillWaiting, ConnectionLost, CommandFailed):
                lost(name)
        await pause(name)


def _forget(question: asyncio.Task[dict[str, Any]]) -> None:
    if not question.cancelled():
        question.exception()
