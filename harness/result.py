"""`result.json`: what a run came to, for other programs. Built from the history alone, so a check gives the same.

The fields are documented in docs/result.md and only ever added to; `schema` counts changes of meaning.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from harness.checkers import Digest, Finding, fold, recovery
from harness.checkers.usage import usage
from harness.history import Event
from harness.lookups import lookup_path
from harness.measures import NS
from harness.verdict import Verdict, check_digest, stream_rows

SCHEMA: Final = 1


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
    with _no_collection():
        digest = fold(events)
        findings, verdict = check_digest(digest)
    started = digest.started
    document = {
        "schema": SCHEMA,
        "scenario": started["scenario"] if started else None,
        "parameters": started["parameters"] if started else {},
        "seed": started["seed"] if started else None,
        "server": _server(started["server"]) if started else {},
        "driver": started.get("driver", {}) if started else {},
        "outcome": verdict.outcome,
        "counts": verdict.counts,
        "expected": list(verdict.expected),
        "verdict": verdict.verdict,
        "reasons": list(verdict.reasons),
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "streams": stream_rows(findings),
        "alarms": [{"at": round(alarm.seconds, 3), **alarm.fields} for alarm in _raised(digest)],
        "faults": next((one.evidence["faults"] for one in findings if one.name == recovery.NAME), []),
        "timings": _timings(digest),
        "usage": usage(digest),
        "record": record,
    }
    return Result(verdict, findings, document)


def _server(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "lookup": lookup_path(told["version"], told["router"])}


@contextmanager
def _no_collection() -> Iterator[None]:
    """A fold makes millions of objects and no cycles of them: looking for some takes half of the time of judging."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _raised(digest: Digest) -> list[Event]:
    """The alarms of all streams in the order of time, without what completed them later."""
    alarms = (alarm for stream in digest.streams.values() for alarm in stream.alarms if not alarm.get("update"))
    return sorted(alarms, key=lambda alarm: alarm.t)


def _timings(digest: Digest) -> dict[str, float]:
    """When each phase began, and the run ended; seconds of run time."""
    times = {name: round(t / NS, 3) for t, name in digest.phases}
    if digest.ended is not None:
        times["end"] = round(digest.ended.seconds, 3)
    return times
