"""A session of our own on one server, by which whatever we have running there is known and ended.

What runs in it, and why that is in somebody's way, the faults know.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from bson import Binary, json_util

from clusters.guard import RunCommand, Undo
from faults.direct import Direct


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
