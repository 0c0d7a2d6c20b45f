"""`result.json`: what a run came to, for other programs. Built from the history alone, so a check gives the same.

The fields are documented in docs/result.md and only ever added to; `schema` counts changes of meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.checkers import Finding
from harness.history import Event
from harness.verdict import Verdict, check_history, stream_rows

SCHEMA: Final = 1

KEPT_KINDS: Final = ("run.", "phase", "alarm", "fault.")


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
        "faults": _faults(kept),
        "timings": _timings(kept, ended),
        "record": record,
    }
    return Result(verdict, findings, document)


def _keeping(events: Iterable[Event], kept: list[Event]) -> Iterator[Event]:
    for event in events:
        if event.kind.startswith(KEPT_KINDS):
            kept.append(event)
        yield event


def _faults(kept: list[Event]) -> list[dict[str, Any]]:
    """One row per fault with the times, in seconds of run time, at which it was opened, proven, healed, recovered."""
    rows: dict[str, dict[str, Any]] = {}
    for event in kept:
        if not event.kind.startswith("fault."):
            continue
        row = rows.setdefault(
            str(event["id"]),
            {"name": None, "target": None, "opened": None, "proven": None, "healed": None, "recovered": None},
        )
        word = event.kind.removeprefix("fault.")
        row[word] = round(event.seconds, 3)
        if word == "opened":
            row.update(name=event["fault"], target=event["target"])
        elif word == "proven":
            row["evidence"] = event.get("evidence")
        elif word == "unproven":
            row["reason"] = event.get("reason")
    return list(rows.values())


def _timings(kept: list[Event], ended: Event | None) -> dict[str, float]:
    """When each phase began, and the run ended; seconds of run time."""
    times = {event["name"]: round(event.seconds, 3) for event in kept if event.kind == "phase"}
    if ended is not None:
        times["end"] = round(ended.seconds, 3)
    return times
