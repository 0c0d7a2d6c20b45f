"""One member asked directly: once, or on a connection that is kept, for a fault is looked at many times a second.

Knows commands, not what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.errors import ClusterError
from clusters.member import Member
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

ANSWER = 10.0
"""Seconds for an answer; a member that is merely paused answers in milliseconds, one on a burdened machine late."""


FAILURES = (CommandFailed, ConnectionLost, DeadlinePassed)
"""All that a question can come to instead of an answer."""


class NoAnswer(ClusterError):
    """A member did not answer, or said no; a sentence on it."""


async def ask(target: Member, document: Mapping[str, Any], *, deadline: float | None = None) -> dict[str, Any]:
    """One question on a connection of its own. Raises NoAnswer."""
    server = Direct(target.host)
    try:
        return await server.command(document, deadline=deadline)
    except FAILURES as error:
        raise NoAnswer(f"{target.name} cannot be asked: {error}") from error
    finally:
        server.close()


class Direct:
    """Connects when first asked and after the connection broke. One question at a time; close it at the end."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._connection: Connection | None = None

    async def command(
        self, document: Mapping[str, Any], *, database: str = "admin", deadline: float | None = None
    ) -> dict[str, Any]:
        """The reply, within `deadline` seconds or ANSWER. Raises CommandFailed, ConnectionLost, DeadlinePassed."""
        deadline = ANSWER if deadline is None else deadline
        if self._connection is None or not self._connection.usable:
            self._connection = await Connection.open(self.host, deadline=deadline)
        return await self._connection.command(database, document, deadline=deadline)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
