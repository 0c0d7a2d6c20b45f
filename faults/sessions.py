"""A session of our own on one server, by which whatever we have running there is known and ended.

What runs in it, and why that is in somebody's way, the faults know.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from bson import Binary, json_util

from clusters.guard import RunCommand, Undo
from clusters.member import Member
from faults.base import HealFailed
from faults.direct import FAILURES, Direct
from faults.parameter import Parameter

GONE_DEADLINE: Final = 10.0
"""Seconds from the end of a session until nothing of it runs any more: what is interrupted has yet to notice it."""
POLL: Final = 0.05


class OwnSession:
    """On one server (`address:port`), until it is ended; it may be ended more than once, and from elsewhere."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._id = Binary.from_uuid(uuid.uuid4())

    @property
    def lsid(self) -> dict[str, Any]:
        return {"id": self._id}

    @property
    def _end(self) -> dict[str, Any]:
        return {"killSessions": [self.lsid]}

    def undo(self) -> Undo:
        return RunCommand(self._host, "admin", json.loads(json_util.dumps(self._end)), in_memory=True)

    async def running(self, server: Direct) -> int:
        """How many operations and open transactions of it there are."""
        reply = await server.command(
            {
                "aggregate": 1,
                "pipeline": [
                    {"$currentOp": {"allUsers": True, "idleSessions": True}},
                    {"$match": {"lsid.id": self._id}},
                    {"$project": {"opid": 1}},
                ],
                "cursor": {"batchSize": 1000},
            }
        )
        return len(reply["cursor"]["firstBatch"])

    async def end(self, server: Direct) -> None:
        """Its operations are interrupted, its transaction is aborted."""
        await server.command(self._end)


async def given_back(target: Member, server: Direct, sessions: Sequence[OwnSession], parameter: Parameter) -> None:
    """All that runs in the sessions ended and seen to be gone, and the parameter as it was. A process that is gone took
    it along. Raises HealFailed."""
    try:
        if not target.running():
            return
        for one in sessions:
            await one.end(server)
        await parameter.off(server)
        end = time.monotonic() + GONE_DEADLINE
        while any([await one.running(server) for one in sessions]):
            if time.monotonic() > end:
                raise HealFailed(
                    f"a session of ours still holds something on {target.name}, {GONE_DEADLINE:g} s after it was ended"
                )
            await asyncio.sleep(POLL)  # the server tells nobody when what it interrupted is gone
    except FAILURES as error:
        if target.running():
            raise HealFailed(f"what our sessions held on {target.name} cannot be shown to be back: {error}") from error
