"""Is every acknowledged write in the collection at the end: no majority write was lost, by a failover or a rollback?

It compares the last census of the documents with the writes; whether their events came is delivery.py's question.
"""

from __future__ import annotations

from typing import Any

from harness.checkers.columns import NEVER, Key
from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import at

NAME = "durability"
STATEMENT = "No majority write that was acknowledged is lost: each document is at its last one, or at a later one sent."

PROBLEMS_SHOWN = 100


def examine(digest: Digest, _context: Context) -> Finding | None:
    """None where there was no census: nobody looked. Unknown where the run did not go its whole way."""
    if digest.census is None:
        return None
    found: dict[Key, int] = dict(digest.census)
    acknowledged = _highest(digest, acknowledged=True)
    sent = _highest(digest, acknowledged=False)
    problems = []
    for key, (seq, index) in acknowledged.items():
        if key not in found:
            problems.append(f"document {key!r} is gone; its write {seq} was acknowledged")
        elif found[key] < seq:
            when = at(digest.writes.ended[index])
            problems.append(f"document {key!r} is at {found[key]}; its write {seq} was acknowledged at {when}")
    for key, seq in found.items():
        if seq > sent.get(key, (0, -1))[0]:
            problems.append(f"document {key!r} is at {seq}, which nobody wrote")
    reason = incomplete(digest)
    evidence: dict[str, Any] = {
        "documents": len(found),
        "acknowledged": len(acknowledged),
        "problem_count": len(problems),
        "problems": problems[:PROBLEMS_SHOWN],
        "doubts": [reason] if reason and not problems else [],
    }
    return Finding(NAME, False if problems else "unknown" if reason else True, STATEMENT, evidence)


def _highest(digest: Digest, *, acknowledged: bool) -> dict[Key, tuple[int, int]]:
    """By document, the highest sequence sent or acknowledged, and the index of that write."""
    writes = digest.writes
    highest: dict[Key, tuple[int, int]] = {}
    for index in writes.acknowledged if acknowledged else range(len(writes)):
        if writes.outcome[index] == NEVER:
            continue
        key, seq = writes.keys[writes.key[index]], writes.seq[index]
        if seq > highest.get(key, (-1, -1))[0]:
            highest[key] = (seq, index)
    return highest
