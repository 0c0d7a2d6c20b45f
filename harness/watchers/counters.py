"""A member's own counters of what it was asked to write, before and after: `serverStatus` and its fail points.

They are the whole server's, other clients' and its own writes included. A request counts when it ends, and one that a
fail point rejects does not count at all (measured on 6.0.5), so they are read after the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, Final

from clusters import admin
from clusters.wire.connection import Connection
from harness.watchers.sends import WRITES

SOURCE: Final = "serverStatus"

ENTERED: Final = "timesEntered"
SECTIONS_LEFT_OUT: Final = (
    "asserts", "connections", "defaultRWConcern", "electionMetrics", "extra_info", "flowControl", "globalLock",
    "indexBulkBuilder", "indexStats", "locks", "logicalSessionRecordCache", "mirroredReads", "network", "oplog",
    "opLatencies", "readConcernCounters", "repl", "security", "shardingStatistics", "storageEngine", "tcmalloc",
    "tenantMigrations", "trafficRecording", "transportSecurity", "twoPhaseCommitCoordinator", "wiredTiger",
)  # fmt: skip


def wanted(status: Mapping[str, Any]) -> dict[str, int]:
    """Of a `serverStatus` what counts writes, by dotted name; `pid` and `started` (seconds since 1970, by the member's
    clock) tell whether it is the same process still."""
    names = [
        *(f"metrics.commands.{verb}.{what}" for verb in sorted(set(WRITES.values())) for what in ("total", "failed")),
        *(f"opcounters.{verb}" for verb in ("insert", "update", "delete", "command")),
        "transactions.retriedCommandsCount",
        "transactions.retriedStatementsCount",
        "pid",
    ]
    found = {name: at(status, name) for name in names}
    if "uptimeMillis" in status and "localTime" in status:
        found["started"] = _clock(status) - status["uptimeMillis"] / 1000
    return {name: int(value) for name, value in found.items() if value is not None}


def at(document: Mapping[str, Any], dotted: str) -> Any:
    """The value under a dotted name, None where there is none."""
    value: Any = document
    for name in dotted.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


async def read_counters(
    connection: Connection, fail_points: Iterable[str] = (), *, deadline: float
) -> tuple[dict[str, int], float]:
    """The counters, those of the fail points named among them; and the member's clock, in seconds since 1970."""
    status = await connection.command(
        "admin", {"serverStatus": 1, **dict.fromkeys(SECTIONS_LEFT_OUT, 0)}, deadline=deadline
    )
    values = wanted(status)
    for name in fail_points:
        state = await admin.fail_point(connection, name, deadline=deadline)
        values[f"failpoint.{name}.{ENTERED}"] = int(state[ENTERED])
    return values, _clock(status)


def _clock(status: Mapping[str, Any]) -> float:
    """The member's clock. Dates come without a zone, and are UTC."""
    return float(status["localTime"].replace(tzinfo=UTC).timestamp())
