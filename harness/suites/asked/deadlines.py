"""Questions to maxTimeMS below the socket timeout: what it ends, and what it does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from harness.suites.question import Comparison, Evidence, Question, equal

EXECUTIONS: Final = 3
WAITS: Final = ("lock", "conflict", "tickets")
"""Runs under what a write waits for interruptibly; each is there with a maxTimeMS as well."""


def _ends(evidence: Evidence) -> Iterable[Comparison]:
    for name in WAITS:
        without, limited = evidence.runs[name], evidence.runs[f"{name}-max-time"]
        yield equal(f"{name}, without: sends", without.sends, 2 * EXECUTIONS)
        yield equal(f"{name}, with: sends", limited.sends, EXECUTIONS)
        yield equal(f"{name}, with: errors", dict(limited.errors), {"50": EXECUTIONS})
        yield equal(f"{name}, with: took effect", limited.effective, 0)
        yield equal(f"{name}, without: took effect", without.effective, EXECUTIONS)
    run = evidence.runs["max-time-interruptible"]
    yield equal("a hang that can be interrupted: sends", run.sends, EXECUTIONS)
    yield equal("a hang that can be interrupted: errors", dict(run.errors), {"50": EXECUTIONS})
    yield equal("a hang that can be interrupted: copies sampled at once", run.sampled, 1)
    yield equal("a hang that can be interrupted: took effect", run.effective, 0)


def _not_cut(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["max-time-uninterruptible"]
    yield equal("sends", run.sends, 2 * EXECUTIONS)
    yield equal("errors, from the resends", dict(run.errors), {"50": EXECUTIONS})
    yield equal("copies sampled at once", run.sampled, EXECUTIONS)
    yield equal("took effect", run.effective, 0)


def _not_held(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["max-time-held"]
    yield equal("sends", run.sends, 2 * EXECUTIONS)
    yield equal("errors", dict(run.errors), {"NetworkTimeout": EXECUTIONS})
    yield equal("took effect", run.effective, 0)


def _not_stopped(evidence: Evidence) -> Iterable[Comparison]:
    run = evidence.runs["max-time-frozen"]
    yield equal("sends", run.sends, 2 * EXECUTIONS)
    yield equal("errors", dict(run.errors), {"NetworkTimeout": EXECUTIONS})
    yield equal("took effect", run.effective, EXECUTIONS)


METHOD: Final = "findAndModify with maxTimeMS 300 and socketTimeoutMS 700, 3 executions"

QUESTIONS: Final[Sequence[Question]] = (
    Question(
        "max-time",
        "Does maxTimeMS below the socket timeout end the overlap?",
        "Where the write can be interrupted: error 50, no resend, one copy at a time, nothing is written.",
        f"{METHOD}, against a lock (fsyncLock), a write conflict, exhausted write tickets, each without maxTimeMS as "
        "well; and a fail point that checks for interrupts",
        runs=[*WAITS, *(f"{name}-max-time" for name in WAITS), "max-time-interruptible"],
        judge=_ends,
    ),
    Question(
        "max-time-uninterruptible",
        "And under a hang that nothing interrupts?",
        "Not: it is sent twice and copies pile up. The application sees error 50, from the resend that waits for the "
        "session, while the originals go on; they end at the first check.",
        f"{METHOD}, held inside the engine by a fail point that does not check",
        runs=["max-time-uninterruptible"],
        judge=_not_cut,
    ),
    Question(
        "max-time-fail-command",
        "And under failCommand?",
        "It does not cut the block: socket timeouts, 6 sends. After the block the time is up, and nothing is written.",
        f"{METHOD}, blocked by failCommand",
        runs=["max-time-held"],
        judge=_not_held,
    ),
    Question(
        "max-time-frozen",
        "And under SIGSTOP?",
        "Not: the clock starts when the request is read. All copies run after SIGCONT.",
        f"{METHOD}, the process stopped before the first send",
        runs=["max-time-frozen"],
        judge=_not_stopped,
    ),
)
