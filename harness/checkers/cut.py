"""Whether a maxTimeMS below socketTimeoutMS ended the writes in the server before the driver gave up waiting for them.

Where the server looks for interrupts it does: error 50 after one send, and one copy at a time. Error 50 alone says
little: behind an original that goes on it comes from the resend, which waited for the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from harness.checkers.context import Context
from harness.checkers.course import incomplete
from harness.checkers.digest import Digest
from harness.checkers.finding import Finding, judged
from harness.checkers.logical_writes import Execution
from harness.checkers.overlap import count
from harness.measures import ended_by_max_time

NAME = "max-time"
STATEMENT = (
    "A maxTimeMS below socketTimeoutMS ends a write that waits where interrupts are looked for, before it is resent."
)
MAX_TIME_EXPIRED: Final = 50
INTERRUPTIBLE: Final = frozenset({"lock-wait", "no-tickets"})
"""Faults under which every write waits where interrupts are looked for. A write conflict: not of all documents."""

Cut = Literal["yes", "no", "in part"]


def examine(digest: Digest, context: Context) -> Finding | None:
    """`evidence.cut`; executions by how they ended; copies at once. None where no such maxTimeMS was given, and where
    nothing held the writes."""
    attempts = digest.attempts
    if context.max_time is None or context.without_fault or not attempts.begun:
        return None
    timeout = context.socket_timeout
    if timeout is not None and context.max_time >= timeout:
        return None
    executions = [execution for _write, execution in attempts.executions()]
    counted = [count(attempts, write) for write in attempts.writes.values()]
    expired = [one for one in executions if one.code == MAX_TIME_EXPIRED]
    first = sum(_sent(one) <= 1 for one in expired)
    unanswered = sum(one.outcome == "unknown" and one.code is None for one in executions)
    at_once = max((max(one.at_once or 0, one.sampled or 0) for one in counted), default=0)
    held = len(expired) + unanswered
    cut: Cut = "yes" if held and first == held and at_once <= 1 else "no" if not first else "in part"
    doubts = list(_doubts(digest, held))
    problems = []
    in_time = context.fault in INTERRUPTIBLE
    if context.fault == "no-tickets":
        in_time = timeout is None or ended_by_max_time(context.max_time) < timeout
    if cut != "yes" and not doubts and in_time:
        problems.append(
            f"{held - first} of {held} executions were not ended by their maxTimeMS under {context.fault}; "
            f"{at_once} copies at once"
        )
    evidence: dict[str, Any] = {
        "max_time": context.max_time,
        "socket_timeout": timeout,
        "cut": None if doubts else cut,
        "held": held,
        "ended_on_first_send": first,
        "ended_on_resend": len(expired) - first,
        "timed_out": unanswered,
        "copies_at_once": at_once,
        "effective": sum(one.effective for one in executions),
    }
    return judged(NAME, STATEMENT, evidence, problems, doubts)


def _sent(execution: Execution) -> int:
    """As the driver says, or else the tap."""
    if execution.sends:
        return len(execution.sends)
    return execution.tapped.total if execution.tapped is not None else 0


def _doubts(digest: Digest, held: int) -> Iterable[str]:
    reason = incomplete(digest)
    if reason is not None:
        yield reason
    if not held:
        yield "no execution waited for its maxTimeMS"
