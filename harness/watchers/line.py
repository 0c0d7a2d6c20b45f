"""A line to one member for one question at a time; a question without an answer is kept, never asked twice.

For all who ask members that may be frozen or stalled: neither connections nor parked operations pile up on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

CONNECT_DEADLINE = 3600.0
"""Seconds; not a deadline but its absence. A frozen member accepts in the kernel and shakes hands when it is thawed;
closing and dialling again would only fill its backlog. The asker's patience is what bounds the wait."""


class StillWaiting(Exception):
    """The question is out and has no answer yet; the line is `busy` until it has."""


class Line:
    """To one host; it connects when first used and after it broke. Close it at the end."""

    def __init__(self, host: str, *, app_name: str = "mongofault watcher") -> None:
        self.host = host
        self._app_name = app_name
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
                self._connection = await Connection.open(self.host, deadline=CONNECT_DEADLINE, app_name=self._app_name)
            except DeadlinePassed as error:
                raise ConnectionLost(str(error)) from error
        return await self._connection.command(database, document)


def _forget(question: asyncio.Task[dict[str, Any]]) -> None:
    if not question.cancelled():
        question.exception()
