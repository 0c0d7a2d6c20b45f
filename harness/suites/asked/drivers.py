"""Questions to drivers: when they send again, how often, and what a time limit of their own makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from harness.suites.question import Comparison, Evidence, Question, at_least, between, equal


def _resends(name: str) -> Callable[[Evidence], Iterable[Comparison]]:
    def judge(evidence: Evidence) -> Iterable[Comparison]:
        run = evidence.runs[name]
        yield equal("sends of each execution", run.sends_each, (2, 2, 2, 2))
        yield equal("sends with a txnNumber", run.numbered, 8)
        yield equal("groups of lsid and txnNumber", run.groups, 4)
        yield between("seconds from a send to its resend, at least", min(run.gaps, default=None), 0.4, 2.0)

    return judge


def _node(evidence: Evidence) -> Iterable[Comparison]:
    look = evidence.looks["mongosh"]
    on, off, limited = look["on"], look["off"], look["timeoutMS"]
    yield equal("executions that failed", on["failed"], 2)
    yield equal("sends", on["sends"], 4)
    yield equal("sends of each lsid and txnNumber", sorted(on["groups"]), [2, 2])
    yield equal("insert.total of the server", on["counted"], 4)
    yield equal("resends answered from the record", on["retried"], 2)
    yield equal("documents", on["documents"], 2)
    yield equal("retryWrites=false: sends", off["sends"], 2)
    yield equal("retryWrites=false: groups with a txnNumber", len(off["groups"]), 0)
    yield equal("retryWrites=false: documents", off["documents"], 2)
    yield equal("timeoutMS in mongosh's URI: executions that failed", limited["failed"], 0)
    yield equal("timeoutMS in mongosh's URI: sends", limited["sends"], 1)


def _csot(evidence: Evidence) -> Iterable[Comparison]:
    runs = evidence.runs
    yield equal("a hang, timeoutMS=1500: sends", runs["hang-csot"].sends, 1)
    yield equal("a hang, timeoutMS=1500: documents", runs["hang-csot"].documents, 0)
    yield between("a hang: seconds until it is given up", max(runs["hang-csot"].seconds, default=None), 1.2, 3.0)
    yield at_least("closed connections, timeoutMS=2000: sends", runs["closed-csot"].sends, 3)
    yield at_least("error 6 with RetryableWriteError, timeoutMS=1000: sends", runs["labelled-csot"].sends, 20)
    yield equal("error 6: groups of lsid and txnNumber", runs["labelled-csot"].groups, 1)
    yield equal("error 91, timeoutMS=2000: sends", runs["error-91-csot"].sends, 1)


def _errors(evidence: Evidence) -> Iterable[Comparison]:
    for name, sends in (("closed", 2), ("error-91", 2), ("labelled", 2), ("error-262", 2), ("error-50", 1)):
        yield equal(f"{name}: sends", evidence.runs[name].sends, sends)
    gap = max(evidence.runs["error-91"].gaps, default=None)
    yield between("error-91: seconds to the resend: the next look at the topology", gap, 5.0, 12.0)


def _overload(evidence: Evidence) -> Iterable[Comparison]:
    yield equal("sends", evidence.runs["overload"].sends, 3)
    yield equal("with timeoutMS=5000: sends", evidence.runs["overload-csot"].sends, 3)
    yield equal("groups of lsid and txnNumber", evidence.runs["overload"].groups, 1)


def _many(evidence: Evidence) -> Iterable[Comparison]:
    for name in ("update-many", "delete-many"):
        run = evidence.runs[name]
        yield equal(f"{name}: sends of each execution", run.sends_each, (1, 1, 1, 1))
        yield equal(f"{name}: sends with a txnNumber", run.numbered, 0)
        yield equal(f"{name}: copies at once", run.at_once, 4)
    yield equal("update-many: qty of 10 documents, 5 for each execution", evidence.runs["update-many"].qty, 200)
    yield equal("delete-many: documents", evidence.runs["delete-many"].documents, 0)


def _unacknowledged(evidence: Evidence) -> Iterable[Comparison]:
    closed, held = evidence.runs["w0-closed"], evidence.runs["w0-held"]
    for name, run in (("closed", closed), ("held", held)):
        yield equal(f"{name}: sends", run.sends, 1)
        yield equal(f"{name}: errors that the application saw", dict(run.errors), {})
    yield equal("closed: documents", closed.documents, 0)
    yield equal("closed: known to be lost, by tap and fail point", closed.lost_unacknowledged, 1)
    yield equal("held: documents", held.documents, 1)


QUESTIONS: Final[Sequence[Question]] = (
    Question(
        "resend-pymongo",
        "Does pymongo's AsyncMongoClient resend a write after a socket timeout?",
        "Once, at once, with the same lsid and txnNumber.",
        "failCommand blocks the inserts, socketTimeoutMS 500",
        runs=["procedure"],
        judge=_resends("procedure"),
    ),
    Question(
        "resend-motor",
        "Does motor?",
        "Once, as pymongo does.",
        "the same through motor",
        runs=["procedure-motor"],
        judge=_resends("procedure-motor"),
    ),
    Question(
        "resend-node",
        "Does the Node driver, in mongosh?",
        "Once; with retryWrites=false not at all. timeoutMS does nothing in mongosh.",
        "mongosh inserts twice each time, failCommand blocks for longer than two socket timeouts; the proxy's tap, "
        "counters before and after",
        looks=["mongosh"],
        judge=_node,
        left_open="the Node driver by itself, with its own timeoutMS",
    ),
    Question(
        "csot",
        "How often is a write sent under timeoutMS?",
        "Once where the server only hangs, which takes all the time; as often as there is time for where errors come.",
        "one execution with timeoutMS against a hang, closed connections, an error with the label, error 91",
        runs=["hang-csot", "closed-csot", "labelled-csot", "error-91-csot"],
        judge=_csot,
        left_open="the Java driver's timeoutMS: since which version, how far it applies to bulks, how many resends",
    ),
    Question(
        "errors",
        "Which errors are sent again, without timeoutMS?",
        "Closed connections, 91, 262 and what bears RetryableWriteError: once. 50 is not.",
        "one execution each, failCommand answers or closes",
        runs=["closed", "error-91", "labelled", "error-262", "error-50"],
        judge=_errors,
    ),
    Question(
        "overload",
        "How often is an error with overload labels sent again?",
        "Twice, with timeoutMS or without: 3 sends, more than 2 for an execution.",
        "one execution, failCommand answers 462 with RetryableError, SystemOverloadedError, RetryableWriteError",
        runs=["overload", "overload-csot"],
        judge=_overload,
    ),
    Question(
        "many",
        "Are updateMany and deleteMany sent again by the driver?",
        "No: one send for each execution and no txnNumber; each execution is a copy.",
        "held inside the engine",
        runs=["update-many", "delete-many"],
        judge=_many,
    ),
    Question(
        "unacknowledged",
        "What becomes of a w:0 insert?",
        "Held, it is written later; on a closed connection it is lost, and the application sees neither.",
        "failCommand holds it, or closes its connection",
        runs=["w0-closed", "w0-held"],
        judge=_unacknowledged,
    ),
)
