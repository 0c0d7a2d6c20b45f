"""What a night came to, cell by cell, as data: the rows, and the results file that the next night is compared with.

The fields are documented in docs/nightly.md and only ever added to; `schema` counts changes of meaning.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusters.errors import Refused
from harness import exits
from harness.nightly.cells import Cell
from harness.nightly.running import Ran
from harness.verdict import NONE_JUDGED, Word

SCHEMA: Final = 1
UNKNOWN: Final = "unknown"
NOT_RUN: Final = "not run"
VERDICTS: Final = {exits.AS_EXPECTED: "as expected", exits.NOT_AS_EXPECTED: "not as expected", exits.UNKNOWN: UNKNOWN}


class Known(BaseModel):
    """The last outcome of a cell that was known, and of which server and night."""

    model_config = ConfigDict(frozen=True)

    outcome: str
    server: str | None
    night: str


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of a night; see docs/nightly.md."""

    cell: str
    version: str
    scenario: str
    fault: str
    fault_options: tuple[str, ...]
    driver: str
    verdict: Word | Literal["not run"]
    command: str
    outcome: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    expected: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    server: str | None = None
    git_version: str | None = None
    router: str | None = None
    lookup: str | None = None
    """Who looks post-images up (see `harness.lookups`)."""
    exit_code: int | None = None
    seconds: float = 0.0
    log: str | None = None
    record: str | None = None
    known: Known | None = None


def row(cell: Cell, command: str, ran: Ran, night: str, known: Known | None, out: Path) -> Row:
    """Of a cell whose process has ended. `night` is when the night began, `known` what was known of it before.

    Paths are below `out`, so that they hold wherever that is taken.
    """
    result = ran.result or {}
    server = result.get("server", {})
    verdict, reasons = _verdict(ran)
    outcome = result.get("outcome")
    if outcome == NONE_JUDGED or ran.ended is not None:
        outcome = None
    version = server.get("version")
    # What an unknown run says of its streams it says under doubt.
    if outcome is not None and verdict != UNKNOWN:
        known = Known(outcome=outcome, server=version, night=night)
    return replace(
        not_run(cell, command, "", known),
        verdict=verdict,
        outcome=outcome,
        counts=result.get("counts", {}),
        expected=tuple(result.get("expected", ())),
        reasons=tuple(reasons),
        server=version,
        git_version=server.get("git_version"),
        router=server.get("router"),
        lookup=server.get("lookup"),
        exit_code=ran.exit_code,
        seconds=round(ran.seconds, 1),
        log=str(ran.log.relative_to(out)),
        record=None if ran.record is None else str(ran.record.relative_to(out)),
    )


def not_run(cell: Cell, command: str, why: str, known: Known | None) -> Row:
    """Of a cell to which the night did not come."""
    asked = {name: getattr(cell, name) for name in ("version", "scenario", "fault", "fault_options", "driver")}
    return Row(cell=cell.name, **asked, verdict=NOT_RUN, command=command, reasons=(why,), known=known)


def _verdict(ran: Ran) -> tuple[Word, list[str]]:
    """The run's own, where it came to its end and nothing of it is left; else unknown, and why."""
    reasons = [one for one in (ran.ended, ran.left) if one is not None]
    if ran.ended is None and ran.exit_code is not None and ran.exit_code < 0:
        reasons.append(f"its process was killed by {signal.Signals(-ran.exit_code).name}")
    if not reasons and ran.result is not None and VERDICTS.get(ran.exit_code or 0) == ran.result.get("verdict"):
        return ran.result["verdict"], list(ran.result["reasons"])
    if not reasons:
        reasons.append(f"exit code {ran.exit_code}: {ran.last_words or 'without a word'}")
    return UNKNOWN, reasons


@dataclass(frozen=True, slots=True)
class Change:
    """One cell that is not as it was. `was` and `now` with the server's version, where that is known."""

    cell: str
    change: str
    was: str
    now: str
    since: str
    """The night of `was`."""


@dataclass(frozen=True, slots=True)
class Night:
    """A night so far, or as a whole. `began` is local time, in the form of ISO 8601."""

    plan: str
    began: str
    seed: int
    seconds: float
    rows: Sequence[Row]
    changes: Sequence[Change]
    """The gravest first."""
    compared_with: str | None
    """The night before, where there was one."""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """A defect found weighs more than what is not known."""
        if self.interrupted:
            return exits.INTERRUPTED
        verdicts = {one.verdict for one in self.rows}
        if "not as expected" in verdicts:
            return exits.NOT_AS_EXPECTED
        return exits.UNKNOWN if verdicts - {"as expected"} else exits.AS_EXPECTED

    @property
    def headline(self) -> str:
        """`11 of 12 cells as expected, 1 not as expected`."""
        counts = Counter(one.verdict for one in self.rows)
        others = [f"{counts[one]} {one}" for one in ("not as expected", UNKNOWN, NOT_RUN) if counts[one]]
        return ", ".join([f"{counts['as expected']} of {len(self.rows)} cells as expected", *others])

    @property
    def document(self) -> dict[str, Any]:
        """The results file."""
        return {
            "schema": SCHEMA,
            "plan": self.plan,
            "began": self.began,
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "interrupted": self.interrupted,
            "exit_code": self.exit_code,
            "summary": self.headline,
            "compared_with": self.compared_with,
            "changes": [asdict(one) for one in self.changes],
            "cells": [asdict(one) | {"known": one.known and one.known.model_dump()} for one in self.rows],
        }


class LastRow(BaseModel):
    """What is needed of a cell of the last night."""

    cell: str
    verdict: str
    known: Known | None = None


class LastNight(BaseModel):
    """What is needed of the last night's results file."""

    version: Literal[1] = Field(alias="schema")
    began: str
    cells: list[LastRow]


def read_last(path: Path) -> LastNight | None:
    """The results of the last night; None where there was none. Raises Refused where it is something else."""
    try:
        return LastNight.model_validate(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"--last {path}: {error.strerror}") from None
    except (ValidationError, ValueError, RecursionError):
        raise Refused(f"--last {path}: expected the results.json of a night, of schema {SCHEMA}") from None
