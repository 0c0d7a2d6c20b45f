"""A question as data: what is asked, which runs and looks it takes, and what they must come to. Pure.

An answer is made of comparisons, found against expected, so that its numbers stand beside its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from harness.suites.measured import Measured

Verdict = Literal["confirmed", "contradicted", "open", "unknown"]
"""`open`: nothing here can answer it. `unknown`: it was tried, and did not come to an end that counts."""

LACKING: Final = "lacking"
"""Field of what was looked at: why nobody could look, where something for it is not to be had here."""
FAILED: Final = "failed"
"""Field of what was looked at: why looking failed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure: what it is, what was found, what was expected in words, and whether it is so."""

    what: str
    found: Any
    expected: str
    holds: bool


def equal(what: str, found: Any, expected: Any) -> Comparison:
    return Comparison(what, found, plain(expected), found == expected)


def plain(figure: Any) -> str:
    """A figure for people."""
    if figure is None:
        return "not measured"
    if isinstance(figure, Mapping):
        return ", ".join(f"{name}: {number}" for name, number in figure.items()) or "none"
    if isinstance(figure, tuple | list):
        return ", ".join(str(one) for one in figure) or "none"
    return str(figure)


def between(what: str, found: float | None, least: float, most: float) -> Comparison:
    """Both ends belong to it; what was not measured is not between."""
    return Comparison(what, found, f"{least:g} to {most:g}", found is not None and least <= found <= most)


def at_least(what: str, found: float | None, least: float) -> Comparison:
    return Comparison(what, found, f"at least {least:g}", found is not None and found >= least)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs came to, and what was looked at, each by its name."""

    runs: Mapping[str, Measured]
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


Judge = Callable[[Evidence], Iterable[Comparison]]


@dataclass(frozen=True, slots=True)
class Question:
    """`runs` and `looks` are names in the suite. `stands` is what is held to be so, `left_open` what even a confirmed
    answer does not say. Without `judge` it stays open, and `left_open` says why."""

    name: str
    title: str
    stands: str
    method: str
    runs: Sequence[str] = ()
    looks: Sequence[str] = ()
    judge: Judge | None = None
    left_open: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` says why it is open or unknown."""

    question: Question
    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    reason: str | None = None


def answer(question: Question, evidence: Evidence) -> Answer:
    """What the evidence comes to. A run or look that is missing, or came to no end that counts, leaves it unknown."""
    if question.judge is None:
        return Answer(question, "open", reason=question.left_open)
    for name in question.looks:
        look = evidence.looks.get(name, {FAILED: "it was not looked at"})
        if LACKING in look:
            return Answer(question, "open", reason=str(look[LACKING]))
        if FAILED in look:
            return Answer(question, "unknown", reason=f"{name}: {look[FAILED]}")
    for name in question.runs:
        run = evidence.runs.get(name)
        if run is None:
            return Answer(question, "unknown", reason=f"{name}: it was not run")
        if run.unknown is not None:
            return Answer(question, "unknown", reason=f"{name}: {run.unknown}")
    found = tuple(question.judge(evidence))
    return Answer(question, "confirmed" if found and all(one.holds for one in found) else "contradicted", found)
