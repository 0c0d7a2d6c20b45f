"""A night against the one before: whose outcome is another one, newly stalled first, and what is no more known. Pure.

A cell is compared with its last outcome that was known, so that a night without a result hides no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.checkers.stall import BOUNDED, STALLED
from harness.nightly.results import NOT_RUN, UNKNOWN, Change, LastNight, Row

FIRST: Final = (STALLED, BOUNDED)
"""Outcomes in the order in which what is newly so is told; the others follow."""


def changes(rows: Sequence[Row], last: LastNight | None) -> list[Change]:
    """The gravest first."""
    before = {one.cell: one for one in last.cells} if last is not None else {}
    found: list[tuple[int, Change]] = []
    for row in rows:
        known = before[row.cell].known if row.cell in before else None
        if known is None:
            continue
        was = _of(known.outcome, known.server)
        if row.verdict in (UNKNOWN, NOT_RUN):
            if before[row.cell].verdict not in (UNKNOWN, NOT_RUN):
                now = "; ".join(row.reasons[:1]) or row.verdict
                found.append((len(FIRST) + 1, Change(row.cell, "no more known", was, now, known.night)))
        elif row.outcome is not None and row.outcome != known.outcome:
            rank = FIRST.index(row.outcome) if row.outcome in FIRST else len(FIRST)
            change = Change(row.cell, f"newly {row.outcome}", was, _of(row.outcome, row.server), known.night)
            found.append((rank, change))
    return [change for _rank, change in sorted(found, key=lambda one: one[0])]


def _of(outcome: str, server: str | None) -> str:
    return outcome if server is None else f"{outcome} ({server})"
