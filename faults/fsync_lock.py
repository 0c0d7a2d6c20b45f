"""fsyncLock as a means to break a member: it serves reads and answers hello, and applies nothing.

What that does to whom, the faults know.
"""

from __future__ import annotations

import asyncio
import time

from clusters.guard import FsyncUnlock, Undo
from clusters.wire.connection import CommandFailed
from faults.direct import Direct

LOCK_DEADLINE = 60.0
"""Seconds: the server writes all it holds to disk before it takes the lock, which a busy disk may delay."""
NO_CHECKPOINT = 125
"""CommandFailed: shortly after an initial sync no checkpoint can be taken yet (measured on 6.0.5)."""


class FsyncLock:
    """The lock of one server (`address:port`)."""

    def __init__(self, host: str) -> None:
        self._server = Direct(host)

    def __str__(self) -> str:
        return "fsyncLock"

    async def obstacle(self) -> str | None:
        return "is fsyncLocked already, and not by this run: fsyncUnlock it first" if await self.is_on() else None

    def undo(self) -> Undo:
        return FsyncUnlock(self._server.host)

    async def on(self) -> None:
        end = time.monotonic() + LOCK_DEADLINE
        while True:
            try:
                await self._server.command({"fsync": 1, "lock": True}, deadline=LOCK_DEADLINE)
                return
            except CommandFailed as error:
                if error.code != NO_CHECKPOINT or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)  # the server tells nobody when it can

    async def is_on(self) -> bool:
        """Whether it was asked for and not let go since: so it is from before it is held."""
        # `opid` matches no operation: of the reply only `fsyncLock` is wanted.
        return bool((await self._server.command({"currentOp": 1, "opid": -1})).get("fsyncLock"))

    async def is_held(self) -> bool:
        """Whether its thread has the global lock, which no write gets past."""
        reply = await self._server.command({"currentOp": 1, "$all": True, "desc": "fsyncLockWorker"})
        return any(one.get("locks", {}).get("Global") == "R" and not one["waitingForLock"] for one in reply["inprog"])

    async def taken(self) -> str | None:
        return "currentOp says fsyncLock, and its thread has the global lock" if await self.is_held() else None

    async def off(self) -> None:
        # It fails where there is no lock, with no code of its own (measured on 6.0.5).
        if await self.is_on():
            await self._server.command({"fsyncUnlock": 1})

    def close(self) -> None:
        self._server.close()
