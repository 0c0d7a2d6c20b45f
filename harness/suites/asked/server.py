"""Questions to the server: where sends wait, how many copies run at once, what `$currentOp` shows, what ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.suites.question import Comparison, Evidence, Question, at_least, equal
from harness.watchers.inside import SESSION_LATCH

WRITES: Final = ("insert", "update", "delete", "findAndModify")
READS: Final = ("find", "count", "distinct", "aggregate")


def _procedure(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["procedure"]
    yield equal("executions", run.executions, 4)
    yield equal("sends of each", run.sends_each, (2, 2, 2, 2))
    yield equal("groups of lsid and txnNumber", run.groups, 4)
    yield equal("errors", dict(run.errors), {"NetworkTimeout": 4})
    yield equal("documents at the end", run.documents, 4)
    yield equal("resends answered from the record", run.retried, 4)


def _session(evidence: Evidence) -> Iterable[Comparison]:
    for name in ("engine", "engine-update"):
        run = evidence.runs[name]
        yield equal(f"{name}: sends", run.sends, 8)
        yield equal(f"{name}: waiting for a session in one sample, at most", run.waiting.get("session", 0), 4)
        yield equal(f"{name}: copies at once", run.at_once, 4)
        yield equal(f"{name}: resends answered from the record", run.retried, 4)
        yield equal(f"{name}: copies", run.copies, 4)


def _checkout(evidence: Evidence) -> Iterable[Comparison]:
    look = evidence.looks["checkout"]
    yield equal("sessions checked out while failCommand held the insert", look["while_held"], 0)
    yield at_least("and when its block had ended", look["afterwards"], 1)
    held = [one for one in evidence.looks["inside"]["failCommand"] if one["verb"] in WRITES]
    yield equal("held at once: original and resend of each of 4 commands", len(held), 8)
    yield equal("of them, that have a session", sum(one["in_session"] for one in held), 0)
    yield equal("of them, that wait for one", sum(one["latch"] == SESSION_LATCH for one in held), 0)


def _fields(evidence: Evidence) -> Iterable[Comparison]:
    ops = evidence.looks["inside"]["engine"]
    yield equal("lsid at the top level", sum(one["lsid"] for one in ops), len(ops))
    for command in WRITES:
        inside = [one for one in ops if one["command"] == command and one["in_session"]]
        waiting = [one for one in ops if one["command"] == command and not one["in_session"]]
        kept = 0 if command in ("update", "delete") else 1
        yield equal(f"{command}: in the engine, waiting for the session", (len(inside), len(waiting)), (1, 1))
        yield equal(
            f"{command} in the engine: with command.{command}", sum(one["verb"] == command for one in inside), kept
        )
        yield equal(f"{command} in the engine: with command.txnNumber", sum(one["command_txn"] for one in inside), kept)
        yield equal(f"{command} in the engine: with command.lsid", sum(one["command_lsid"] for one in inside), kept)
        yield equal(
            f"{command} in the engine: with transaction.parameters.txnNumber",
            sum(one["transaction_txn"] for one in inside),
            1,
        )
        yield equal(f"{command} waiting: with command.txnNumber", sum(one["command_txn"] for one in waiting), 1)
    held = evidence.looks["inside"]["failCommand"]
    yield equal("held by failCommand: with microsecs_running", sum(one["begun"] for one in held), 0)


def _maxima(evidence: Evidence) -> Iterable[Comparison]:
    for name, sends, copies in (
        ("engine", 8, 4),
        ("maximum-10x1", 20, 10),
        ("maximum-4x5", 40, 20),
        ("maximum-4x5-shared", 40, 20),
        ("maximum-10x3", 60, 30),
        ("engine-delayed", 8, 4),
    ):
        run = evidence.runs[name]
        yield equal(f"{name}: sends", run.sends, sends)
        yield equal(f"{name}: copies at once", run.at_once, copies)
        yield equal(f"{name}: documents", run.documents, copies)


def _without_retries(evidence: Evidence) -> Iterable[Comparison]:
    for name, copies in (("no-retry", 4), ("no-retry-10x3", 30)):
        run = evidence.runs[name]
        yield equal(f"{name}: sends", run.sends, copies)
        yield equal(f"{name}: copies at once", run.at_once, copies)
        yield equal(f"{name}: sends with a txnNumber", run.numbered, 0)
        yield equal(f"{name}: documents", run.documents, copies)


def _one_session(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["one-session"]
    yield equal("sends", run.sends, 8)
    yield equal("groups of lsid and txnNumber", run.groups, 4)
    yield equal("copies at once", run.at_once, 1)
    # Whom the session is given to next is chance: an older number is refused after a newer one has begun.
    yield Comparison("documents", run.documents, "1 to 4", 1 <= (run.documents or 0) <= 4)
    yield equal(
        "sends, less those refused and those answered from the record", 8 - run.failed - run.retried, run.copies
    )


def _fared(look: Mapping[str, Any], name: str) -> str:
    return str(look[name]["fared"])


def _hang_up(evidence: Evidence) -> Iterable[Comparison]:
    look = evidence.looks["hang-up"]
    for name in (*WRITES, "out", "merge"):
        yield equal(f"{name}, after its client has closed", _fared(look, name), "goes on")
        yield equal(f"{name}: took effect", look[name]["effect"], True)
    for name in READS:
        yield equal(f"{name}, after its client has closed", _fared(look, name), "ends")


QUESTIONS: Final[Sequence[Question]] = (
    Question(
        "procedure",
        "What does the procedure of the reproduction come to, when it is run?",
        "4 executions, 8 sends in 4 groups of 2, 4 documents.",
        "failCommand blocks the inserts; socketTimeoutMS 500, a first execution and 3 retries without wait",
        runs=["procedure"],
        judge=_procedure,
    ),
    Question(
        "session-wait",
        "Does a resend wait for its session until the original ends?",
        "It waits at the session's check-out, and is then answered from the session's record, not carried out.",
        "an insert and an update are held inside the engine; $currentOp sampled, counters before and after",
        runs=["engine", "engine-update"],
        judge=_session,
    ),
    Question(
        "fail-command-before-checkout",
        "Does failCommand hold a command before or after its session is checked out?",
        "Before: original and resend both sit at the fail point, and neither has a session.",
        "hangBeforeSessionCheckOut counts check-outs while failCommand holds one insert; $currentOp of four commands "
        "and their resends",
        looks=["checkout", "inside"],
        judge=_checkout,
    ),
    Question(
        "field-location",
        "Where in $currentOp are lsid and txnNumber?",
        "lsid is at the top level; command.lsid and command.txnNumber are there too, but for an update or delete that "
        "is inside the engine, whose number is in transaction.parameters alone. What failCommand holds has not begun.",
        "$currentOp while four commands are held inside the engine and their resends wait",
        looks=["inside"],
        judge=_fields,
    ),
    Question(
        "maximum",
        "Are 2 x executions sends, and as many copies at once as executions, reached?",
        "Exactly: 8 and 4, 20 and 10, 40 and 20, 60 and 30. Waits between executions change nothing.",
        "the insert is held inside the engine until all have given up; tap and the member's log",
        runs=["engine", "maximum-10x1", "maximum-4x5", "maximum-4x5-shared", "maximum-10x3", "engine-delayed"],
        judge=_maxima,
    ),
    Question(
        "retry-writes-off",
        "Does retryWrites=false lessen the copies?",
        "It halves the sends; the copies stay.",
        "as before, with retryWrites=false",
        runs=["no-retry", "no-retry-10x3"],
        judge=_without_retries,
    ),
    Question(
        "one-session",
        "Is each group of lsid and txnNumber a copy?",
        "Not where all executions have one explicit session: 4 groups, one copy at a time.",
        "an explicit session for all executions of the consumer",
        runs=["one-session"],
        judge=_one_session,
    ),
    Question(
        "hang-up",
        "Which commands end when their client closes its connection?",
        "find, count, distinct and aggregate end; insert, update, delete, findAndModify and an aggregate with $out or "
        "$merge go on and take effect.",
        "raw connections, closed while the command is held where it can be interrupted (a fail point that checks for "
        "interrupts, $where or $function that sleeps)",
        looks=["hang-up"],
        judge=_hang_up,
        left_open="the other commands of the list, and other versions",
    ),
)
