"""What is dangerous, or in vain, about settings; each with the case in which it was measured.

Warned of is what was measured, and what is plain arithmetic or the driver's own interface; the ground says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.measures import duration
from harness.prediction.bounds import Polls
from harness.prediction.settings import Server, Settings


@dataclass(frozen=True, slots=True)
class Caution:
    """`name` is for programs and stays; `text` is for people; `ground` begins with `measured on` or `not measured`."""

    name: str
    text: str
    ground: str


def warnings(settings: Settings, polls: Polls) -> tuple[Caution, ...]:
    """By subject: timeouts, the write, the retries, the consumer."""
    return (
        *_timeouts(settings),
        *_max_time(settings),
        *_write(settings),
        *_retries(settings),
        *_sessions(settings),
        *_polls(settings, polls),
    )


def _timeouts(settings: Settings) -> Iterator[Caution]:
    if not settings.write.acknowledged:
        return
    if settings.timeout is not None:
        yield Caution(
            "time-bound",
            "timeoutMS bounds the time of an execution, not the number of its sends; socketTimeoutMS is then ignored",
            "measured on 6.0.5: timeoutMS 3000, hanging 8 s: one send, with or without socketTimeoutMS 500",
        )
    elif settings.socket_timeout is None and not settings.max_time_first:
        yield Caution(
            "never-gives-up",
            "no socketTimeoutMS: an execution waits for as long as the server hangs, and the consumer stands still",
            "not measured: pymongo's documented default, also for socketTimeoutMS 0",
        )
    elif settings.socket_timeout is None:
        yield Caution(
            "never-gives-up",
            "no socketTimeoutMS: where maxTimeMS cannot stop the operation, the execution never ends",
            "not measured: pymongo's documented default, also for socketTimeoutMS 0",
        )
    if settings.numbered and settings.timeout is None and settings.server is not Server.REFUSES:
        dial = "without end" if settings.connect_timeout is None else f"after {duration(settings.connect_timeout)}"
        yield Caution(
            "cold-pool",
            "the most sends are reached with idle connections in the pool; a process that is stopped answers no "
            f"handshake, and what has to dial it sends nothing (connectTimeoutMS ends a dial {dial})",
            "measured on 6.0.5: SIGSTOP, 4 executions: 8 sends and 4 documents with a warm pool, 2 and 2 with a cold",
        )


def _max_time(settings: Settings) -> Iterator[Caution]:
    if settings.max_time is None:
        return
    if settings.timeout is not None:
        yield Caution(
            "max-time-replaced",
            "with timeoutMS the driver sends a maxTimeMS of its own: the one given is without effect",
            "measured on 6.0.5: with timeoutMS 3000 the server got a maxTimeMS of about 2990",
        )
        return
    if not settings.write.takes_max_time:
        yield Caution(
            "max-time-not-sent",
            f"the driver has no maxTimeMS for {settings.write.name}: it is not sent, and the prediction is without it",
            "not measured: the signatures of pymongo 4.20.1; of the writes only find_one_and_... take one",
        )
        return
    if not settings.max_time_first and settings.socket_timeout is not None:
        yield Caution(
            "max-time-not-below-socket-timeout",
            f"maxTimeMS, {duration(settings.max_time)}, is not below socketTimeoutMS, "
            f"{duration(settings.socket_timeout)}: the driver resends before the server stops the operation",
            "measured on 6.0.5: findAndModify under fsyncLock, 3 executions, socketTimeoutMS 1500: "
            "6 sends and 3 copies without maxTimeMS, 3 sends and one copy at a time with 700",
        )
    yield Caution(
        "max-time-is-no-cancellation",
        "maxTimeMS stops only what looks for interrupts, from when the server has read the request; "
        "an error 50 is no proof that the write has stopped",
        "measured on 6.0.5: 700 below 1500, 3 executions: held without interrupt checks 6 sends and 3 copies, error 50 "
        "coming from the resend; process stopped before the send 6 sends, and all 3 copies ran when it went on",
    )


_MULTI: Final = {
    "update-many": "measured on 6.0.5: updateMany $inc, 3 executions: 3 added in all 1000 documents; "
    "killed halfway: 98 of 1000 for good, and the same error",
    "delete-many": "measured on 6.0.5: at give-up 0 of 1000 deleted, later all; killed halfway: 902 left for good, "
    "and the same error",
    "bulk-multi": "measured on 6.0.5: [insertOne, updateMany]: sent once, without a number, its insert too",
}


def _write(settings: Settings) -> Iterator[Caution]:
    write, executions = settings.write, settings.executions
    if not write.acknowledged:
        yield Caution(
            "unacknowledged",
            "w:0: the application takes every write for done and retries none",
            "measured on 6.0.5: held, it was written later; with its connection closed it was lost; no error in either",
        )
    if write.multi and executions > 1:
        yield Caution(
            "multi",
            f"{write.name} is not resent, and each retry of the application does all of it again; "
            "after an error nobody knows whether none, some or all was done",
            _MULTI[write.name],
        )
    if write.own_id and executions > 1:
        yield Caution(
            "driver-generated-id",
            "the driver draws a new _id for each execution: every copy leaves a document of its own; "
            "an _id of the business leaves one",
            "measured on 6.0.5: 4 executions left 4 documents; where the server went on during the second, 2 documents "
            "although the application saw success",
        )
    if write.name == "inc" and executions > 1:
        yield Caution(
            "not-idempotent",
            "$inc is not idempotent: each copy adds the amount, also under an _id of the business",
            "measured on 6.0.5: $inc 5 with upsert, 4 executions: one document, 20",
        )
    if write.name in ("set", "replace-upsert") and executions > 1:
        yield Caution(
            "older-copy-last",
            "copies end in any order: an older execution may overwrite a newer one",
            "measured on 6.0.5: replaceOne with upsert, 4 executions: the first one wrote last",
        )
    if write.bulk and write.numbered:
        yield Caution(
            "one-batch",
            "counted is a bulk that is one command; of different kinds of writes it is several, each resent by itself",
            "measured on 6.0.5: [insertOne, deleteOne], hanging in the insert: 2 sends, of the insert alone",
        )


def _retries(settings: Settings) -> Iterator[Caution]:
    policy = settings.policy
    if settings.executions > 1 and not any(policy.waits):
        yield Caution(
            "zero-back-off",
            "no wait between executions: copies pile up as fast as executions fail; waits give the server time, "
            "they do not lessen the most that can come",
            "measured on 6.0.5: 4 executions 1 s apart: 8 sends and 4 copies as without waits, in 8.0 s, not in 4.1 s",
        )
    if settings.write.numbered and not settings.retry_writes:
        yield Caution(
            "retry-writes-off",
            "retryWrites off halves the sends, not the copies",
            "measured on 6.0.5: 4 executions: 4 sends, 4 at once, 4 documents; 10 with 3 consumers: 30, 30, 30",
        )


def _sessions(settings: Settings) -> Iterator[Caution]:
    if settings.one_session:
        yield Caution(
            "one-session",
            "in one explicit session one copy runs at a time and older executions may be refused: "
            "groups by lsid and txnNumber are not copies",
            "measured on 6.0.5: 4 executions: 8 sends, 4 groups, 1 copy in the engine; afterwards 2 documents, "
            "and 4 sends refused (225, TransactionTooOld)",
        )


def _polls(settings: Settings, polls: Polls) -> Iterator[Caution]:
    if polls.suffices:
        return
    has = f"max.poll.interval.ms is {duration(polls.interval)}"
    if polls.needed is None:
        text = f"{has} and an execution may never end: the group passes its records on until every consumer hangs"
    else:
        slow = "" if polls.after_error is None or polls.records == 1 else "where all records of a poll are that slow, "
        text = (
            f"{has} and would have to be more than {duration(polls.needed)}: {slow}the consumer leaves the group, "
            "its commit fails, and its records are delivered anew while its copies go on"
        )
    term = "longest execution x executions + waits" if polls.after_error is None else "longest execution"
    last = "" if polls.after_error is None else " + longest wait"
    yield Caution("poll-interval", text, f"not measured: max.poll.records x ({term}){last}")
