"""One connection of one's own, on which a command goes out once, as it is written; upstream's `new Mongo(host)`.

For tests that number their writes by hand or hang up in the middle: a driver would put in a session of its own, try
again and choose among connections. All else uses the drivers of `ShardingTest` and `ReplSetTest`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from jstests_port.mongo import Document

DEADLINE: Final = 30.0
"""Seconds for a handshake and for a reply, where a test does not say otherwise."""

NETWORK_ERRORS: Final = (ConnectionLost, DeadlinePassed)
"""What upstream's `isNetworkError` is true of: no reply came, and whether the command ran is not known."""


class RawConnection:
    """Made by `raw_connection`; `app_name` is what `$currentOp` and fail points know it by."""

    def __init__(self, connection: Connection, app_name: str) -> None:
        self.app_name = app_name
        self._connection = connection

    async def run_command(self, database: str, command: Mapping[str, Any], *, deadline: float = DEADLINE) -> Document:
        """The reply, failed or not. Raises ConnectionLost, or DeadlinePassed after `deadline` seconds; then the socket
        is closed."""
        try:
            return await self._connection.command(database, command, deadline=deadline)
        except CommandFailed as error:
            return dict(error.reply)


@asynccontextmanager
async def raw_connection(host: str, *, app_name: str | None = None) -> AsyncIterator[RawConnection]:
    """A new connection to `host` for the length of a block, under a name that no other has unless it is given one.

    Raises ConnectionLost, DeadlinePassed.
    """
    app_name = app_name or f"jstests-{uuid.uuid4().hex[:12]}"
    connection = await Connection.open(host, deadline=DEADLINE, app_name=app_name)
    try:
        yield RawConnection(connection, app_name)
    finally:
        connection.close()
