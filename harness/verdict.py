"""The verdict of a run: what was observed against what was expected, and the exit code that says so.

A pure function of findings, so a stored record gives the same one. It knows nothing of how a finding came about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness import exits
from harness.checkers import (
    Context,
    Digest,
    Finding,
    alarms,
    case,
    counts,
    course,
    cut,
    delivery,
    durability,
    effects,
    examine_all,
    fold,
    health,
    isolation,
    overlap,
    predicted,
    records,
    recovery,
    release,
    stall,
    traffic,
)
from harness.history import Event
from harness.measures import SOUND, UNSOUND

MIXED: Final = "mixed"
NONE_JUDGED: Final = "none"
CONTRADICTING: Final = (
    durability.NAME,
    delivery.NAME,
    records.NAME,
    case.APPLIED,
    effects.NAME,
    counts.NAME,
    overlap.NAME,
    predicted.NAME,
    cut.NAME,
    isolation.NAME,
    case.NAME,
    recovery.NAME,
    alarms.NAME,
    release.NAME,
    health.NAME,
)
"""Findings that must not be false, the weightiest first."""
LOSSES: Final = (delivery.NAME, durability.NAME, case.APPLIED)
"""Findings that stay false whatever else could not be established."""
NEEDED: Final = (course.NAME, recovery.NAME, traffic.NAME, stall.NAME, delivery.NAME)
NEEDED_OF_COPIES: Final = (course.NAME, recovery.NAME, predicted.NAME, overlap.NAME, counts.NAME)
NEEDED_OF_ROUTING: Final = (course.NAME, recovery.NAME, isolation.CONTROL, isolation.NAME, case.NAME, case.APPLIED)
"""Findings without which nothing is known, in the order in which their doubts are told."""

Word = Literal["as expected", "not as expected", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is the streams' common outcome, `mixed`, or `none` where no stream was judged; `counts` by outcome."""

    verdict: Word
    outcome: str
    counts: dict[str, int]
    expected: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why it is not `as expected`, most important first; empty if it is."""
    exit_code: int

    @property
    def headline(self) -> str:
        """One line: `as expected: stalled (8 of 8 streams)`."""
        if self.outcome == NONE_JUDGED and self.reasons:
            return f"{self.verdict}: {self.reasons[0].removeprefix(course.NAME + ': ')}"
        total = sum(self.counts.values())
        counts = ", ".join(f"{count} of {total} {outcome}" for outcome, count in self.counts.items())
        line = f"{self.verdict}: {self.outcome}" + (f" ({counts})" if counts else "")
        return line + (f"; {self.reasons[0]}" if self.reasons else "")


def check_history(events: Iterable[Event], context: Context | None = None) -> tuple[list[Finding], Verdict]:
    """Findings and verdict of a history. Without a context, by the measure that its `run.started` records."""
    return check_digest(fold(events), context)


def check_digest(digest: Digest, context: Context | None = None) -> tuple[list[Finding], Verdict]:
    """The same of a history already folded; the one way both a run and `mongofault check` take."""
    context = context or Context.of(digest.started or {})
    findings = examine_all(digest, context)
    return findings, judge(findings, context.expected)


def judge(findings: Sequence[Finding], expected: Collection[str]) -> Verdict:
    """Every stream's outcome must be among `expected` (`mixed` there allows any mixture; empty: unknown).

    Unknown comes before the comparison, and only a proven loss before unknown: an event lost or doubled stays so
    whatever else could not be established. An interrupted run is always unknown.
    """
    by_name = {finding.name: finding for finding in findings}
    # Of a run that did not go its whole way nobody knows how its streams would have come out.
    whole = _is(by_name, course.NAME, True)
    of_streams: dict[str, int] = dict(_evidence(by_name, stall.NAME).get("counts", {})) if whole else {}
    outcome = next(iter(of_streams)) if len(of_streams) == 1 else MIXED if of_streams else NONE_JUDGED
    contradictions = list(_contradictions(by_name))
    what_is_left = SOUND in expected
    of_copies = predicted.NAME in by_name
    of_routing = isolation.NAME in by_name
    needed = NEEDED_OF_COPIES if of_copies else _of_routing(by_name) if of_routing else NEEDED
    doubts = list(_doubts(by_name, [one for one in needed if one != stall.NAME] if what_is_left else needed))
    if of_copies and whole:
        outcome = _evidence(by_name, predicted.NAME)["outcome"] or NONE_JUDGED
    if of_routing and whole:
        outcome = _evidence(by_name, isolation.NAME)["outcome"]
    if what_is_left and whole:
        of_streams, outcome = {}, UNSOUND if contradictions else NONE_JUDGED if doubts else SOUND
    if not expected:
        doubts.append("no outcome was expected, so none can be as expected")
    word: Word
    if _evidence(by_name, course.NAME).get("interrupted"):
        word, reasons, code = "unknown", [*doubts, *contradictions], exits.INTERRUPTED
    elif contradictions and any(_is(by_name, one, False) for one in LOSSES):
        word, reasons, code = "not as expected", [*contradictions, *doubts], exits.NOT_AS_EXPECTED
    elif doubts:
        word, reasons, code = "unknown", [*doubts, *contradictions], exits.UNKNOWN
    else:
        reasons = [*_unmet(of_streams, outcome, expected), *contradictions]
        word = "not as expected" if reasons else "as expected"
        code = exits.NOT_AS_EXPECTED if reasons else exits.AS_EXPECTED
    return Verdict(word, outcome, of_streams, tuple(sorted(expected)), tuple(reasons), code)


def stream_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One row per stream for `result.json`: stall's fields, with those of alarms, recovery and delivery beneath."""
    rows: dict[str, dict[str, Any]] = {}
    parts = {stall.NAME: None, alarms.NAME: "alarm", recovery.NAME: "recovery", delivery.NAME: "delivery"}
    for finding in findings:
        if finding.name not in parts:
            continue
        for row in finding.evidence.get("streams", ()):
            merged = rows.setdefault(row["stream"], {"stream": row["stream"], "outcome": None})
            part = parts[finding.name]
            if part is None:
                merged.update(row)
            else:
                merged[part] = {name: value for name, value in row.items() if name not in ("stream", "outcome")}
    return sorted(rows.values(), key=lambda row: (len(row["stream"]), row["stream"]))


def _of_routing(by_name: dict[str, Finding]) -> tuple[str, ...]:
    """Not every case has a control."""
    return tuple(one for one in NEEDED_OF_ROUTING if one != isolation.CONTROL or one in by_name)


def _unmet(counts: dict[str, int], outcome: str, expected: Collection[str]) -> Iterable[str]:
    if not counts and outcome not in expected and outcome not in (NONE_JUDGED, UNSOUND):
        yield f"expected {' or '.join(sorted(expected))}, observed {outcome}"
    surprising = [each for each in counts if each not in expected]
    if surprising and outcome not in expected:
        wanted = " or ".join(sorted(expected))
        seen = ", ".join(f"{counts[each]} {each}" for each in surprising)
        yield f"expected {wanted}, observed {seen} of {sum(counts.values())} streams"


def _contradictions(by_name: dict[str, Finding]) -> Iterable[str]:
    for name in CONTRADICTING:
        if _is(by_name, name, False) and _evidence(by_name, name).get("demanded", True):
            problems = by_name[name].evidence.get("problems") or [by_name[name].statement]
            count = by_name[name].evidence.get("problem_count", len(problems))
            yield f"{name}: {problems[0]}" + (f" (and {count - 1} more)" if count > 1 else "")


def _doubts(by_name: dict[str, Finding], needed: Collection[str]) -> Iterable[str]:
    if _is(by_name, course.NAME, "unknown"):
        # All else that is unknown then is so for this reason.
        yield from (f"{course.NAME}: {doubt}" for doubt in by_name[course.NAME].evidence["doubts"])
        return
    for name in needed:
        if name not in by_name:
            yield f"{name}: not checked"
            continue
        evidence = by_name[name].evidence
        doubts = evidence.get("doubts")
        if _is(by_name, name, "unknown"):
            yield f"{name}: {doubts[0]}" if doubts else f"{name}: could not be established"
    if _is(by_name, health.NAME, "unknown") and _evidence(by_name, health.NAME)["demanded"]:
        yield f"{health.NAME}: {_evidence(by_name, health.NAME)['doubts'][0]}"


def _is(by_name: dict[str, Finding], name: str, valid: Any) -> bool:
    return name in by_name and by_name[name].valid == valid


def _evidence(by_name: dict[str, Finding], name: str) -> dict[str, Any]:
    return by_name[name].evidence if name in by_name else {}
