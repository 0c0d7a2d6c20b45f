"""What routers and shards tell of their routing tables: the counters of the catalog cache, and log lines with times.

Counters do not tell a fine router from a coarse one (measured on 6.0.5); they tell that there was one stale error, one
refresh, and which kind. `operationsBlockedByRefresh`, which a mongos has, counts operations that were not blocked too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from harness.history import Recorder
from harness.measures import AS_SHARD

SOURCE: Final = "catalog"
DEADLINE: Final = 10.0
"""Seconds for an answer."""
COUNTERS: Final = (
    "countStaleConfigErrors",
    "countIncrementalRefreshesStarted",
    "countFullRefreshesStarted",
    "countFailedRefreshes",
    "numActiveIncrementalRefreshes",
    "numActiveFullRefreshes",
    "totalRefreshWaitTimeMicros",
)
"""Of `serverStatus.shardingStatistics.catalogCache`, on a router and on the router code of a shard."""
ACTIVE: Final = ("numActiveIncrementalRefreshes", "numActiveFullRefreshes")
LEFT_OUT: Final = ("wiredTiger", "metrics", "repl", "locks", "tcmalloc", "transactions", "opcounters", "network")
"""Sections of serverStatus that nobody reads here, and that take most of its time."""

UNREACHED: Final = 4625501
RECEIVED: Final = 22840
REFRESHING: Final = 4619900
REFRESHED: Final = 4619901
LINES: Final[Mapping[int, str]] = {
    UNREACHED: "no remote cursor",
    RECEIVED: "error received for a query",
    REFRESHING: "refreshing",
    REFRESHED: "refreshed",
}
"""Lines of a router's log by id, in words (6.0.5). The second and the third are debug lines of level 1."""

VERBOSITY: Final = '{"query":{"verbosity":1},"sharding":{"shardingCatalogRefresh":{"verbosity":1}}}'
"""What logComponentVerbosity has to be for all of LINES."""

STALE_CODES: Final[Mapping[str, int]] = {
    "ShardInvalidatedForTargeting": 304,
    "StaleConfig": 13388,
    "StaleDbVersion": 249,
}


async def counters(host: str) -> dict[str, int]:
    """The counters of a router or shard now. Raises CommandFailed, ConnectionLost, DeadlinePassed."""
    connection = await Connection.open(host, deadline=DEADLINE)
    try:
        asked = {"serverStatus": 1, **dict.fromkeys(LEFT_OUT, 0)}
        reply = await connection.command("admin", asked, deadline=DEADLINE)
    finally:
        connection.close()
    return counted(reply)


def counted(reply: Mapping[str, Any]) -> dict[str, int]:
    """The counters in a serverStatus."""
    told = reply.get("shardingStatistics", {})
    cache = told.get("catalogCache", {})
    found = {name: int(cache[name]) for name in COUNTERS if name in cache}
    if "countStaleConfigErrors" in told:
        found[AS_SHARD] = int(told["countStaleConfigErrors"])
    return found


async def read(recorder: Recorder, hosts: Mapping[str, str], when: str) -> None:
    """Record the counters of members by name; of one that gives no answer, why."""
    for name, host in hosts.items():
        try:
            recorder.record("catalog", SOURCE, member=name, when=when, values=await counters(host), error=None)
        except (CommandFailed, ConnectionLost, DeadlinePassed) as error:
            recorder.record("catalog", SOURCE, member=name, when=when, values=None, error=str(error))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a router's log. `at` is seconds since 1970 of its clock, `code` of the error if it has one."""

    id: int
    at: float
    code: int | None
    text: str


def lines(log: Iterable[str], namespace: str) -> Iterator[Line]:
    """Those of LINES that are about a namespace. A line that is no JSON is passed over."""
    for raw in log:
        if namespace not in raw or not any(f'"id":{one},' in raw for one in LINES):
            continue
        try:
            entry = json.loads(raw)
            number, attr = int(entry["id"]), entry.get("attr", {})
            at = datetime.fromisoformat(entry["t"]["$date"]).timestamp()
        except (ValueError, KeyError, TypeError):
            continue
        if number in LINES:
            error = attr.get("error")
            yield Line(number, round(at, 3), code_of(error), _text(error) or str(entry.get("msg", "")))


def code_of(error: Any) -> int | None:
    """A server's error in a log line, which is a document or a text that begins with its name."""
    if isinstance(error, Mapping):
        return int(error["code"]) if "code" in error else STALE_CODES.get(str(error.get("codeName")))
    return STALE_CODES.get(str(error).partition("{")[0].partition(":")[0].strip())


def _text(error: Any) -> str:
    if isinstance(error, Mapping):
        return f"{error.get('codeName')}: {error.get('errmsg')}"[:300]
    return str(error)[:300] if error else ""


def record_lines(recorder: Recorder, router: str, log: Iterable[str], namespace: str) -> None:
    """Record what a router's log has to say of a namespace."""
    for one in lines(log, namespace):
        recorder.record("refresh.logged", SOURCE, router=router, id=one.id, logged=one.at, code=one.code, text=one.text)
