"""Questions to a process that is stopped: what of the sends in its sockets runs once it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from harness.suites.question import Comparison, Evidence, Question, between, equal


def _frozen(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["frozen"]
    yield equal("sends", run.sends, 8)
    yield equal("copies", run.copies, 4)
    yield equal("resends answered from the record", run.retried, 4)
    yield equal("documents", run.documents, 4)
    run = evidence.runs["frozen-replace"]
    yield equal("replace by the business's _id: copies", run.copies, 4)
    yield equal("replace by the business's _id: documents", run.documents, 1)
    run = evidence.runs["frozen-inc"]
    yield equal("$inc of 5: documents", run.documents, 1)
    yield equal("$inc of 5: sum", run.qty, 20)


def _failover(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["failover"]
    yield between("sends", run.sends, 4, 8)
    yield between("documents", run.documents, 0, 1)


def _duplicates(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["frozen-business-id"]
    yield equal("sends", run.sends, 8)
    # Of four executions one is first, and its resend alone is answered from the record; which resends are read before
    # their originals have failed is chance, and changes nothing: each of the others is carried out.
    yield equal("copies", run.copies, 7)
    yield equal("resends answered from the record", run.retried, 1)
    yield equal("documents", run.documents, 1)
    yield Comparison("rules", list(run.rules), "no record is left", any("no record" in one for one in run.rules))


def _cold(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["frozen-cold"]
    yield between("sends", run.sends, 1, 4)
    yield between("documents", run.documents, 1, 3)


QUESTIONS: Final[Sequence[Question]] = (
    Question(
        "frozen",
        "What runs after a stopped primary goes on?",
        "All that lies in its sockets: 8 sends, 4 copies. 4 documents with the driver's _id, one with the business's, "
        "and $inc four times.",
        "SIGSTOP until the application has given up; one node, so that no other takes over; connections open before",
        runs=["frozen", "frozen-replace", "frozen-inc"],
        judge=_frozen,
    ),
    Question(
        "failover",
        "And with a failover meanwhile?",
        "The old primary's copies are refused or rolled back; at most the one is left that the new primary was sent.",
        "the same with three members, an election timeout of 3 s, stopped for 10 s",
        runs=["failover"],
        judge=_failover,
        left_open="which of them are refused and which rolled back is chance, and whether the new primary is sent one",
    ),
    Question(
        "duplicate-key",
        "Does a session's record keep a failed write from being carried out again?",
        "No: a duplicate key leaves no record, and the resend is carried out: 7 copies of 4 executions, one document.",
        "the same with the business's _id",
        runs=["frozen-business-id"],
        judge=_duplicates,
    ),
    Question(
        "cold-pool",
        "Is the maximum reached with a cold pool?",
        "No: a stopped process answers no handshake, and what dials it sends nothing.",
        "the same with one open connection",
        runs=["frozen-cold"],
        judge=_cold,
    ),
)
