"""The one question that a member is asked at each look, filtered and cut down by the server. Pure."""

from __future__ import annotations

from typing import Any, Final

from harness.watchers.canary import READ_ANYWHERE
from harness.watchers.sends import WRITES

SLOW: Final = 1.0
"""Seconds that a lookup or a write must run to be told of: what is quicker never leaves the server."""

OURS: Final = ("mongofault watcher", "mongofault proof")
"""Application names of those who look on themselves."""

_KEPT: Final = (
    "type", "shard", "host", "opid", "op", "ns", "appName", "lsid.id", "microsecs_running", "numYields",
    "waitingForLock", "waitingForLatch.captureName", "currentQueue.name", "failpointMsg", "locks",
    "waitForWriteConcernDurationMillis", "transaction.parameters.txnNumber",
    "cursor.cursorId", "cursor.tailable", "cursor.nDocsReturned", "cursor.nBatchesReturned",
    "cursor.originatingCommand.comment",
    *(f"command.{name}" for name in (
        "getMore", "maxTimeMS", "comment", "aggregate", "pipeline", "fromMongos", "txnNumber", "lsid.id", "q", "query",
        "updates.q", "deletes.q", "nsInfo.ns", *sorted(WRITES),
    )),
)  # fmt: skip
"""Neither documents nor updates: what is written is nobody's business here."""


def current_op(*, max_time_ms: int, local: bool = False) -> dict[str, Any]:
    """Cursors of change streams, reading or idle; slow reads by internal means, among them lookups of post-images; slow
    writes. `local`: a mongos' own alone.

    An update or delete inside the engine shows as `{q, u}` without its command's name (6.0.5), so it is found by `op`.
    """
    slow = {"microsecs_running": {"$gte": int(SLOW * 1e6)}, "appName": {"$nin": list(OURS)}}
    wanted: list[dict[str, Any]] = [
        {"cursor.tailable": True},
        {
            "command.aggregate": {"$type": "string"},
            "command.pipeline": {"$size": 1},
            "command.readConcern.afterClusterTime": {"$exists": True},
            **slow,
        },
        {"op": {"$in": ["insert", "update", "remove"]}, **slow},
        {"op": "command", "$or": [{f"command.{verb}": {"$exists": True}} for verb in sorted(WRITES)], **slow},
    ]
    stage = {"allUsers": True, "idleConnections": False, "idleSessions": False, "idleCursors": True}
    return {
        "aggregate": 1,
        "pipeline": [
            {"$currentOp": {**stage, **({"localOps": True} if local else {})}},
            {"$match": {"ns": {"$not": {"$regex": r"^(local|config)\."}}, "$or": wanted}},
            {"$project": dict.fromkeys(_KEPT, 1)},
        ],
        "cursor": {"batchSize": 10_000},
        "maxTimeMS": max_time_ms,
        **READ_ANYWHERE,
    }
