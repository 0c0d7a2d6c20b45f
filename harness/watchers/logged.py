"""The server's log as an exact count of what was executed: with `slowms: -1` each request leaves a line as it ends.

Only what ended is there. A member's lines are read from its own log; of a member that has none nothing is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from clusters.wire.connection import Connection
from harness.watchers.counters import at
from harness.watchers.sends import WRITES

SLOW_QUERY: Final = '"id":51803,'
"""Of the line "Slow query"; the number is the same in all versions since 4.4."""

DATABASE: Final = "admin"
"""Where the level is set that comes along; the threshold is the whole server's."""

NO_PRIMARY: Final = frozenset({10107, 13435, 189})
"""NotWritablePrimary, NotPrimaryNoSecondaryOk, PrimarySteppedDown: what a member that is no primary answers a write."""

COUNTED: Final = ("nMatched", "ninserted", "nModified", "nUpserted", "ndeleted")


@dataclass(frozen=True, slots=True)
class Threshold:
    """From when on a request is worth a line: `slowms` milliseconds; and what goes with it in the one command."""

    level: int
    slowms: int
    sample_rate: float

    def command(self) -> dict[str, Any]:
        """As an undo record can hold it; to be run on `DATABASE`."""
        return {"profile": self.level, "slowms": self.slowms, "sampleRate": self.sample_rate}


EVERY_REQUEST: Final = Threshold(0, -1, 1.0)


async def threshold(connection: Connection, *, deadline: float) -> Threshold:
    """What is set now."""
    reply = await connection.command(DATABASE, {"profile": -1}, deadline=deadline)
    return Threshold(int(reply["was"]), int(reply["slowms"]), float(reply.get("sampleRate", 1.0)))


async def set_threshold(connection: Connection, wanted: Threshold, *, deadline: float) -> None:
    await connection.command(DATABASE, wanted.command(), deadline=deadline)


@dataclass(frozen=True, slots=True)
class Logged:
    """One request that wrote, or was to. Times are seconds since 1970 of the member's clock, to the millisecond.

    `inside`: it was in the engine, which it enters with a lock on the collection; a resend that was answered from the
    session's record was not, nor what a fail point rejected. `executed`: and it did not fail as a whole (`failed`); its
    statements may have, which for an insert stands nowhere. `began` and `ended` are of its statements where the log has
    them (update, delete), else of the whole request: with what it waited for a session before, and, in versions that
    do not tell that apart (6.0), for its write concern. Of a statement that was interrupted the log does not say how
    far it had come. `internal`: of the server's own, from no client. `cut`: the command was too long for the
    line, and what of it came late (its comment, it may be) is not there. All of this measured on 6.0.5.
    """

    command: str
    namespace: str
    lsid: str | None
    txn: int | None
    comment: Any
    inside: bool
    executed: bool
    failed: bool
    code: int | None
    inserted: int
    matched: int
    modified: int
    upserted: int
    deleted: int
    millis: int
    began: float
    ended: float
    internal: bool
    cut: bool


def read_log(lines: Iterable[str]) -> Iterator[Logged]:
    """Of the lines of one member, in their order. A line that is cut short, or is no JSON, is passed over."""
    statements: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if SLOW_QUERY not in line:
            continue
        try:
            entry = json.loads(line)
            attr, thread = entry["attr"], entry["ctx"]
            command = attr["command"]
            if attr["type"] in ("update", "remove"):
                # An update's effects have lines of their own, before the request's and by the same thread.
                statements.setdefault(thread, []).append(entry)
            elif (verb := next(iter(command), "")) in WRITES:
                yield _logged(entry, WRITES[verb], statements.pop(thread, []))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _logged(entry: Mapping[str, Any], verb: str, statements: list[Mapping[str, Any]]) -> Logged:
    attr: Mapping[str, Any] = entry["attr"]
    command = attr["command"]
    ended, millis = _seconds(entry), int(attr["durationMillis"])
    began = ended - millis / 1000
    ended -= int(attr.get("waitForWriteConcernDurationMillis", 0)) / 1000
    if statements:
        ended = _seconds(statements[-1])
        began = _seconds(statements[0]) - int(statements[0]["attr"]["durationMillis"]) / 1000
    told = [attr, *(one["attr"] for one in statements)]
    counts = {name: sum(int(one.get(name, 0)) for one in told) for name in COUNTED}
    code = next((int(one["errCode"]) for one in told if "errCode" in one), None)
    failed = attr.get("ok") == 0
    locked = at(attr, "locks.Collection.acquireCount") or {}
    inside = bool(statements) or "w" in locked or "W" in locked
    lsid = (command.get("lsid") or {}).get("id", {}).get("$uuid")
    return Logged(
        command=verb,
        namespace=f"{str(attr['ns']).partition('.')[0]}.{next(iter(command.values()))}",
        lsid=lsid.replace("-", "") if lsid else None,
        txn=command.get("txnNumber"),
        comment=command.get("comment"),
        inside=inside,
        executed=inside and not failed,
        failed=failed,
        code=code,
        inserted=counts["ninserted"],
        matched=counts["nMatched"],
        modified=counts["nModified"],
        upserted=counts["nUpserted"],
        deleted=counts["ndeleted"],
        millis=millis,
        began=round(began, 3),
        ended=round(ended, 3),
        internal="remote" not in attr,
        cut="truncated" in entry,
    )


def _seconds(entry: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(entry["t"]["$date"]).timestamp()
