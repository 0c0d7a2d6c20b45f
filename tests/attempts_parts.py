"""Hand-made histories of logical writes: executions, what they sent and what of it ran, each source told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.history import COMPLETED
from history_builder import History

MEMBER = "rs0-0"
EPOCH = 1.7e9
"""Seconds since 1970 at run time 0."""


@dataclass(frozen=True)
class Copy:
    """A line in the log. Seconds of run time."""

    began: float
    ended: float
    member: str = MEMBER
    changed: int = 1
    inside: bool = True
    executed: bool = True
    failed: bool = False


class Attempted(History):
    """A run of logical writes; sends and copies of every execution are told by all sources alike, unless asked for."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__()
        self.add(0.0, "run.started", scenario="overlap", parameters={"fault": "none", **parameters}, expected=[])
        self.phases(load=0.1, check=90.0)
        self.add(99.0, "run.ended", reason=COMPLETED)
        self.requests = self.sessions = 0
        self.requests_logged = self.executed_logged = 0

    def execution(
        self,
        write: str,
        number: int,
        begun: float,
        copies: Sequence[Copy] = (),
        *,
        sends: int = 2,
        tapped: int | None = None,
        outcome: str = "unknown",
        seconds: float = 1.0,
        labels: Sequence[str] = (),
        effect: bool = False,
        session: str | None = None,
        numbered: bool = True,
        command: str = "insert",
        code: int | None = None,
    ) -> None:
        """`tapped`: requests that the tap read, if not the sends; `session`: an explicit one, else one of its own."""
        self.sessions += 1
        lsid, txn = (session, number) if session else (f"s{self.sessions}", 1)
        common: dict[str, Any] = {"write": write, "execution": number}
        self.add(begun, "execution.begun", consumer="c1", **common)
        for index in range(sends):
            self.requests += 1
            t = begun + index * seconds / sends
            self.add(
                t, "send", "listener", **common, request=self.requests, operation=self.sessions, lsid=lsid,
                txn=txn if numbered else None, command=command, host="127.0.0.1:20000",
            )  # fmt: skip
            self.add(
                t + seconds / sends / 2, "send.ended", "listener",
                request=self.requests, ok=False, seconds=0.5, error="timed out", code=None, labels=list(labels),
            )  # fmt: skip
        self.add(
            begun + seconds, "execution.ended", outcome=outcome, error="timed out", code=code, code_name=None,
            labels=[], seconds=seconds, effect={"inserted": 1} if effect else None, **common,
        )  # fmt: skip
        total = sends if tapped is None else tapped
        if total:
            self.add(
                91.0, "tap", "tap", **common,
                total=total, most=1, now=0, unanswered=total, first=EPOCH + begun, last=EPOCH + begun + seconds,
            )  # fmt: skip
        for copy in copies:
            self.requests_logged += 1
            self.executed_logged += copy.executed
            self.add(
                92.0, "op.logged", "log", **common, member=copy.member, lsid=lsid, txn=txn if numbered else None,
                command=command, inside=copy.inside, executed=copy.executed, inserted=copy.changed,
                modified=0, matched=0, deleted=0, upserted=0, failed=copy.failed, code=None,
                millis=round((copy.ended - copy.began) * 1000),
                began=EPOCH + copy.began, ended=EPOCH + copy.ended,
            )  # fmt: skip

    def log(self, member: str = MEMBER, **counts: int) -> None:
        """The log of a member was read; `requests`, `executed` and `internal` are what was told unless given."""
        told = {"requests": self.requests_logged, "executed": self.executed_logged, "internal": 0, **counts}
        self.add(93.0, "log.counted", "log", member=member, **{name: {"insert": n} for name, n in told.items()})

    def counters(self, member: str = MEMBER, *, pid: int = 7, began: float | None = None, **moved: int) -> None:
        """Before and after: `total`, `failed`, `retried`, `entered` are how far each went meanwhile; `began`: seconds
        of run time at which the process started that answers after."""
        names = {
            "total": "metrics.commands.insert.total",
            "failed": "metrics.commands.insert.failed",
            "retried": "transactions.retriedCommandsCount",
            "entered": "failpoint.failCommand.timesEntered",
        }
        for t, when, by in ((0.2, "before", 0), (91.0, "end", 1)):
            values: dict[str, float] = {dotted: 1000 + by * moved.get(name, 0) for name, dotted in names.items()}
            values["pid"] = 7 if not by else pid
            # Two readings of one process differ by a little.
            values["started"] = EPOCH - 10 + 0.1 * by if began is None or not by else EPOCH + began
            self.add(t, "counters", "serverStatus", member=member, when=when, values=values, error=None)

    def tapped(self, total: int, *, link: str = MEMBER, now: int = 0, unanswered: int = 0) -> None:
        self.add(91.0, "tap.command", "tap", link=link, command="insert", total=total, now=now, unanswered=unanswered)

    def sampled(self, t: float, copies: int | None, *, write: str = "t/0/0", member: str = MEMBER) -> None:
        """One look at a member; None: it gave no answer."""
        counts = {"ops": copies, "groups": copies, "copies": copies, "oldest": None if copies is None else 1.0}
        self.add(
            t, "copies", "currentOp", member=member, namespace="app.t", interval=0.2, waiting={},
            writes={write: copies} if copies else {}, **counts,
        )  # fmt: skip

    def effects(self, *documents: dict[str, Any]) -> None:
        self.add(95.0, "effects", documents=list(documents))


def hung(number: int, *, until: float = 60.0, changed: int = 1) -> Copy:
    """A copy that came 10 s after the one before it, and ends with all of them."""
    return Copy((number - 1) * 10.0, until + number * 0.01, changed=changed)


def answered(ended: float = 60.5) -> Copy:
    """A resend that was answered from the session's record."""
    return Copy(ended - 0.001, ended, changed=0, inside=False, executed=False)


def seed_run(**parameters: Any) -> Attempted:
    """Four executions of one record, two sends and one copy each, all copies at once."""
    history = Attempted(**{"write": "insert", **parameters})
    for number in range(1, 5):
        history.execution("t/0/0", number, (number - 1) * 10.0, [hung(number), answered()], seconds=9.0)
    return history
