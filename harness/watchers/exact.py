"""The exact sources of a run together: tap, counters and log, begun before the first write and read after the release.

Nothing here is sampled, and nothing is asked while a fault acts: a member that is frozen could not answer. Each source
is written down apart, and which of them agree is for the checkers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from clusters.wire.proxy.client import CountsLost
from harness.drivers.errors import one_line
from harness.history import Recorder
from harness.watchers import counters, logged
from harness.watchers.sends import TapReader
from harness.watchers.watched import WatchedMember

LOG: Final = "log"

DEADLINE: Final = 10.0
"""Seconds for each question to a member, which is no longer held up by anything when it is asked."""

UNANSWERED: Final = (CommandFailed, ConnectionLost, DeadlinePassed)

TOTALS: Final[Mapping[str, Callable[[logged.Logged], bool]]] = {
    "requests": lambda _request: True,
    "executed": lambda request: request.executed,
    "internal": lambda request: request.internal,
    "outside": lambda request: not request.inside and not request.failed and request.txn is None,
    "refused": lambda request: not request.inside and request.code in logged.NO_PRIMARY,
}
"""What is counted of all clients' requests in a log."""

When = Literal["before", "released", "end"]


@dataclass(frozen=True, slots=True)
class Counted:
    """A member that holds data, or the router. `log_lines` gives the lines of its log since a second of the epoch
    (None: it has none to be read), `fail_points` are those whose entries count."""

    member: WatchedMember
    log_lines: Callable[[float], Sequence[str]] | None = None
    fail_points: Sequence[str] = field(default=())


class ExactSources:
    """`control` is the proxy's control address and `entrances` the links that clients come in by; None: no tap."""

    def __init__(
        self,
        recorder: Recorder,
        members: Iterable[Counted],
        run: str,
        *,
        control: str | None = None,
        entrances: Sequence[str] = (),
    ) -> None:
        self._recorder = recorder
        self._members = list(members)
        self._run = run
        self._tap = None if control is None else TapReader(recorder, control, run, entrances)
        self._thresholds: dict[str, logged.Threshold] = {}
        self._since: dict[str, float] = {}

    async def thresholds(self) -> Mapping[str, logged.Threshold]:
        """By host, what `begin` will change and `end` puts back: for the undo records, which come before the act."""
        for one in self._members:
            if one.log_lines is not None and one.member.name not in self._thresholds:
                async with _asking(one.member) as connection:
                    found = await logged.threshold(connection, deadline=DEADLINE)
                self._thresholds[one.member.name] = found
        return {one.member.host: self._thresholds[one.member.name] for one in self._logging()}

    async def begin(self) -> None:
        """From here on everything counts. Raises CommandFailed, ConnectionLost, DeadlinePassed."""
        await self.thresholds()
        for one in self._logging():
            async with _asking(one.member) as connection:
                await logged.set_threshold(connection, logged.EVERY_REQUEST, deadline=DEADLINE)
        if self._tap is not None:
            await self._tap.begin()
        await self.read("before")

    async def read(self, when: When) -> None:
        """The counters of all members, now. One that does not answer is written down without values."""
        await asyncio.gather(*(self._read(one, when) for one in self._members))

    async def end(self) -> None:
        """After the release, when nothing runs any more: the counters, the tap, the log; and the log is as it was.

        Raises what `begin` does, and CountsLost where the tap had no room; the first of these once the rest is done.
        """
        await self.read("end")
        failures: list[Exception] = []
        if self._tap is not None:
            try:
                await self._tap.end()
            except (*UNANSWERED, CountsLost) as error:
                failures.append(error)
        for one in self._logging():
            try:
                async with _asking(one.member) as connection:
                    await logged.set_threshold(connection, self._thresholds[one.member.name], deadline=DEADLINE)
            except UNANSWERED as error:
                failures.append(error)
            await self._read_log(one)
        if failures:
            raise failures[0]

    def _logging(self) -> list[Counted]:
        return [one for one in self._members if one.member.name in self._thresholds]

    async def _read(self, one: Counted, when: When) -> None:
        values: dict[str, int] | None = None
        error: str | None = None
        try:
            async with _asking(one.member) as connection:
                values, clock = await counters.read_counters(connection, one.fail_points, deadline=DEADLINE)
            self._since.setdefault(one.member.name, clock)
        except UNANSWERED as failure:
            error = one_line(failure)
        self._recorder.record(
            "counters", counters.SOURCE, member=one.member.name, when=when, values=values, error=error
        )

    async def _read_log(self, one: Counted) -> None:
        """Each request of this run; of all others how many there were, for what the counters have of them."""
        assert one.log_lines is not None
        since = self._since.get(one.member.name, 0.0)
        found = await asyncio.to_thread(lambda lines: list(logged.read_log(lines(since))), one.log_lines)
        ours: list[logged.Logged] = []
        totals: dict[str, Counter[str]] = {name: Counter() for name in TOTALS}
        for request in found:
            if request.ended < since:
                continue
            for name, counts in TOTALS.items():
                totals[name][request.command] += counts(request)
            if _run_of(request) == self._run or (request.cut and request.comment is None):
                ours.append(request)
        for request in ours:
            self._recorder.record("op.logged", LOG, **_fields(one.member.name, request))
        self._recorder.record(
            "log.counted", LOG, member=one.member.name, **{name: dict(counts) for name, counts in totals.items()}
        )


def _run_of(request: logged.Logged) -> Any:
    return request.comment.get("run") if isinstance(request.comment, Mapping) else None


def _fields(member: str, request: logged.Logged) -> dict[str, Any]:
    comment = request.comment if isinstance(request.comment, Mapping) else {}
    return {
        "member": member, "write": comment.get("write"), "execution": comment.get("execution"),
        "lsid": request.lsid, "txn": request.txn, "command": request.command, "inside": request.inside,
        "executed": request.executed, "inserted": request.inserted, "modified": request.modified,
        "matched": request.matched, "deleted": request.deleted, "upserted": request.upserted,
        "millis": request.millis, "failed": request.failed, "code": request.code,
        "began": request.began, "ended": request.ended,
    }  # fmt: skip


@asynccontextmanager
async def _asking(member: WatchedMember) -> AsyncIterator[Connection]:
    """A connection to one member for as long as it is asked."""
    connection = await Connection.open(member.host, deadline=DEADLINE)
    try:
        yield connection
    finally:
        connection.close()
