"""`result.json`: what a run came to, for other programs. Built from the history alone, so a check gives the same.

The fields are documented in docs/result.md and only ever added to; `schema` counts changes of meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.checkers import Finding, recovery
from harness.history import Event
from harness.verdict import Verdict, check_history, stream_rows

SCHEMA: Final = 1

KEPT_KINDS: Final = ("run.", "phase", "alarm")


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict, the findings behind it, and the whole as the document that is written."""

    verdict: Verdict
    findings: list[Finding]
    document: dict[str, Any]

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    @property
    def headline(self) -> str:
        return self.verdict.headline


def of(events: Iterable[Event], record: str) -> Result:
    """Judge a history, read once."""
    kept: list[Event] = []
    findings, verdict = check_history(_keeping(events, kept))
    started = next((event for event in kept if event.kind == "run.started"), None)
    ended = next((event for event in reversed(kept) if event.kind == "run.ended"), None)
    document = {
        "schema": SCHEMA,
        "scenario": started["scenario"] if started else None,
        "parameters": started["parameters"] if started else {},
        "seed": started["seed"] if started else None,
        "server": started["server"] if started else {},
        "outcome": verdict.outcome,
        "counts": verdict.counts,
        "expected": list(verdict.expected),
        "verdict": verdict.verdict,
        "reasons": list(verdict.reasons),
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "streams": stream_rows(findings),
        "alarms": [
            {"at": round(event.seconds, 3), **event.fields}
            for event in kept
            if event.kind == "alarm" and not event.get("update")
        ],
        "faults": next((one.evidence["faults"] for one in findings if one.name == recovery.NAME), []),
        "timings": _timings(kept, ended),
        "record": record,
    }
    return Result(verdict, findings, document)


def _keeping(events: Iterable[Event], kept: list[Event]) -> Iterator[Event]:
    for event in events:
        if event.kind.startswith(KEPT_KINDS):
            kept.append(event)
        yield event


def _timings(kept: list[Event], ended: Event | None) -> dict[str, float]:
    """When each phase began, and the run ended; seconds of run time."""
    times = {event["name"]: round(event.seconds, 3) for event in kept if event.kind == "phase"}
    if ended is not None:
        times["end"] = round(ended.seconds, 3)
    return times
