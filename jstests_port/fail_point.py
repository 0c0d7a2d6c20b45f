"""Upstream's `configureFailPoint` (jstests/libs/fail_point_util.js): on, waited for, off.

Works on every node that has fail points; a stand-in router has `failCommand` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from jstests_port.mongo import Mongo

WAIT_DEADLINE = 30.0
"""Seconds until something must have run into it."""


class ConfiguredFailPoint:
    """On since it was configured; `async with` switches it off at the end of the block."""

    def __init__(self, conn: Mongo, name: str, times_entered_at_first: int) -> None:
        self._conn = conn
        self._name = name
        self._times_entered_at_first = times_entered_at_first

    async def wait(self, times_entered: int = 1, *, deadline: float = WAIT_DEADLINE) -> None:
        """Until it was entered so many times since it was configured. Raises OperationFailure (50) after `deadline`
        seconds."""
        await self._conn.admin.command(
            "waitForFailPoint",
            self._name,
            timesEntered=self._times_entered_at_first + times_entered,
            maxTimeMS=round(deadline * 1000),
        )

    async def off(self) -> None:
        """Harmless where it is off."""
        await self._conn.admin.command("configureFailPoint", self._name, mode="off")

    async def __aenter__(self) -> ConfiguredFailPoint:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.off()


async def configure_fail_point(
    conn: Mongo, name: str, data: Mapping[str, Any] | None = None, mode: str | Mapping[str, Any] = "alwaysOn"
) -> ConfiguredFailPoint:
    """Switch it on: `fail_point = await configure_fail_point(...)`, or `async with await configure_fail_point(...)`."""
    reply = await conn.admin.command("configureFailPoint", name, mode=mode, data=dict(data or {}))
    # The count goes on from earlier uses, and the reply has it as it was before this one (measured on 6.0.5).
    return ConfiguredFailPoint(conn, name, int(reply["count"]))
