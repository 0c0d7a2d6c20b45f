"""Was each stalled stream freed in the way that its release frees one, with exactly the errors that go with it?

heal: it goes on by itself. kill-member: the driver resumes, its consumer sees nothing. kill-op: the consumer gets one
error, 11601 with no label to resume on, and opens again itself. Whether anything was lost is delivery.py's question.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final

from harness.checkers import stall
from harness.checkers.columns import Stream
from harness.checkers.context import Context
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding
from harness.checkers.windows import windows
from harness.measures import NS

NAME = "release"
STATEMENT = "Every stalled stream is freed as its release frees one, with exactly the errors that go with it."

INTERRUPTED: Final = 11601
"""What a getMore fails with that killOp ended (Interrupted); not among the errors a driver resumes on."""

WAYS: Final = {"heal": "the healing", "kill-member": "the driver's resume", "kill-op": "the consumer's resume"}


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.streams`: how each was freed, seconds after the release. None where no stream was stalled."""
    held = windows(digest, context)
    stalled = [
        digest.streams[row["stream"]]
        for row in stall.examine(digest, context).evidence["streams"]
        if row["outcome"] == stall.STALLED
    ]
    if not held or not stalled or context.without_fault:
        return None
    healed = min((fault.healed for fault in digest.faults.values() if fault.healed >= 0), default=digest.end)
    rows = [_row(stream, held[-1].release, healed) for stream in stalled]
    problems = [problem for row in rows for problem in _problems(row, context.release)]
    evidence: dict[str, Any] = {
        "release": context.release,
        "freed_by": WAYS.get(context.release, context.release),
        "errors": sum(row["error_count"] for row in rows),
        "resumed_by_driver": sum(row["resumed_by_driver"] for row in rows),
        "resumed_by_consumer": sum(row["resumed_by_consumer"] for row in rows),
        "streams": rows,
        "problems": problems,
    }
    return Finding(NAME, not problems, STATEMENT, evidence)


def _row(stream: Stream, release: int, healed: int) -> dict[str, Any]:
    """`freed_after`: seconds from the release to the next event, None: there was none."""
    position = bisect_right(stream.delivered_at, release)
    freed = stream.delivered_at[position] if position < len(stream.delivered_at) else None
    errors = [error for error in stream.errors if error.t > release]
    resumes = [resume for resume in stream.resumes if resume.t > release]
    return {
        "stream": stream.name,
        "freed_after": None if freed is None else round((freed - release) / NS, 3),
        "freed_before_the_heal": freed is not None and freed < healed,
        "error_count": len(errors),
        "errors": stall.counted(errors),
        "labels": sorted({label for error in errors for label in error.get("labels") or ()}),
        "resumed_by_driver": sum(resume["by"] == "driver" for resume in resumes),
        "resumed_by_consumer": sum(resume["by"] == "consumer" for resume in resumes),
    }


def _problems(row: dict[str, Any], release: str) -> Iterable[str]:
    name = f"stream {row['stream']}"
    if release != "heal" and not row["freed_before_the_heal"]:
        yield f"{name}: not freed by {release}, but by the healing after it"
    codes = [one["code"] for one in row["errors"] for _ in range(one["count"])]
    wanted = [INTERRUPTED] if release == "kill-op" else []
    if codes != wanted:
        yield f"{name}: expected {_errors(wanted)} after {release}, found {_errors(codes)}"
    elif row["labels"]:
        yield f"{name}: expected an error without labels, found {', '.join(row['labels'])}"
    if release == "kill-member" and not row["resumed_by_driver"]:
        yield f"{name}: the driver did not resume it"
    if release == "kill-op" and not row["resumed_by_consumer"]:
        yield f"{name}: the consumer did not open it again"


def _errors(codes: Sequence[int | None]) -> str:
    return f"errors with codes {', '.join(map(str, codes))}" if codes else "no error"
