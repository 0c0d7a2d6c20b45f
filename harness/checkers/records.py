"""What became of the records: each processed or dead, none lost, and no effect that is there twice without a copy.

By the books of the consumers, the members' logs and the documents at the end. Whether these documents are all that the
copies leave is effects.py's question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.logical_writes import LogicalWrite
from harness.drivers.kinds import KINDS, Kind

NAME = "records"
STATEMENT = (
    "Every record is processed or in the dead-letter log, none is lost, "
    "and an effect that is there more than once is that of so many counted copies."
)

NAMES_SHOWN: Final = 100


def examine(digest: Digest, context: Context) -> Finding | None:
    """None where no consumer kept books. Numbers of records in `evidence`, but for `duplicates`: of effects.

    `dead_with_effect`: given up, and written all the same; `both`: processed by one consumer, given up by another.
    """
    attempts = digest.attempts
    writes = [one for one in attempts.writes.values() if one.records]
    if not writes:
        return None
    kind = KINDS.get(context.write or "")
    documents = attempts.documents()
    processed = [one for one in writes if one.records["processed"]]
    dead = [one for one in writes if one.records["dead"]]
    neither = sorted(one.name for one in writes if not one.records["processed"] and not one.records["dead"])
    never_polled = (context.records or len(writes)) - len(writes)
    found = {one.name: _effects(kind, documents[one.name]) for one in writes} if kind else {}
    duplicates = sum(max(0, sum(effects.values()) - 1) for effects in found.values())
    unexplained = list(_unexplained(kind, writes, found)) if kind else []
    doubts = list(_doubts(digest, context, kind))
    problems = []
    if not incomplete(digest):
        problems += [f"record {name}: neither processed nor in the dead-letter log" for name in neither]
        if never_polled > 0:
            problems.append(f"{never_polled} of {context.records} records were never delivered to a consumer")
        if not doubts:
            problems += unexplained
    evidence: dict[str, Any] = {
        "records": context.records,
        "processed": len(processed),
        "dead": len(dead),
        "both": sum(bool(one.records["processed"]) for one in dead),
        "lost": len(neither) + max(0, never_polled),
        "lost_records": neither[:NAMES_SHOWN],
        "redelivered": sum(one.records["redelivered"] for one in writes),
        "dead_with_effect": sum(bool(found.get(one.name)) for one in dead),
        "duplicates": duplicates,
        "unexplained": len(unexplained),
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _unexplained(kind: Kind, writes: Sequence[LogicalWrite], found: Mapping[str, Counter[int]]) -> Iterable[str]:
    """Effects that no copy explains. Of a write on many documents one that was interrupted does: it may have done some
    of them, and the log does not say how many."""
    for write in writes:
        for number, times in sorted(found.get(write.name, Counter()).items()):
            execution = write.executions.get(number)
            copies = 0
            if execution is not None:
                copies = execution.copies if kind.prepared else execution.effective
            if times > copies:
                yield f"record {write.name} execution {number}: {times} effects, {copies} counted copies"


def _effects(kind: Kind, documents: Iterable[Mapping[str, Any]]) -> Counter[int]:
    """How often that which an execution leaves is there, begun parts of it included, by execution."""
    named = Counter(kind.held(documents).executions)
    return Counter({number: -(-times // len(kind.expected((number,)).executions)) for number, times in named.items()})


def _doubts(digest: Digest, context: Context, kind: Kind | None) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
    if context.records is None:
        yield "the record does not say how many records there were"
    if kind is None:
        yield "the record does not say of which kind its writes are"
    if digest.attempts.effects is None:
        yield "nobody looked at what is left"
    if not digest.attempts.logged:
        yield "no member's log was read: which copies took effect is not known"
    if torn := digest.attempts.torn():
        yield torn
