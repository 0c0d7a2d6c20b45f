"""A night for people: one line for each cell, a page in Markdown, cases for a CI server. What changed stands first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.lookups import NOT_ROUTED
from harness.measures import duration
from harness.nightly.results import NOT_RUN, UNKNOWN, Night, Row
from harness.report.junit import Case
from harness.report.pages import markdown
from harness.scenarios.update_lookup_stall import UpdateLookupStall

COLUMNS: Final = ("version", "router", "scenario", "fault", "driver", "outcome", "expected", "verdict", "seconds")
NOTHING: Final = "-"
LAST_LINES: Final = 40
"""Of the output of a cell that failed; the whole is in its log."""


def line(row: Row) -> str:
    """`6.0.5/update-lookup-stall/freeze/pymongo: as expected: stalled (18.2 s)`."""
    came_to = f": {_outcome(row)}" if row.outcome is not None else ""
    why = f"; {row.reasons[0]}" if row.reasons else ""
    return f"{row.cell}: {row.verdict}{came_to}{why}" + (f" ({duration(row.seconds)})" if row.seconds else "")


def changed(night: Night) -> list[tuple[str, str, str, str]]:
    """A row for each change: what it is, which cell, what it was, what it is now."""
    return [(one.change, one.cell, f"{one.was}, {one.since[:10]}", one.now) for one in night.changes]


def rows(night: Night) -> list[tuple[str, ...]]:
    """A row of COLUMNS for each cell; those that changed stand first, in the order of their changes."""
    order = {one.cell: number for number, one in enumerate(night.changes)}
    ordered = sorted(night.rows, key=lambda row: order.get(row.cell, len(order)))
    return [_cells(row) for row in ordered]


def page(night: Night) -> str:
    """Markdown, for a job's summary or a ticket."""
    lines = [f"# Nightly: {night.headline}", ""]
    if night.interrupted:
        lines += ["**Interrupted**: what was running was ended and healed.", ""]
    if night.changes:
        lines += [
            f"## Changed since {night.compared_with}",
            "",
            *_table(("change", "cell", "was", "now"), changed(night)),
        ]
    elif night.compared_with is not None:
        lines += [f"Nothing changed since {night.compared_with}."]
    else:
        lines += ["There is no night before to compare this one with."]
    lines += ["", "## Cells", "", *_table(COLUMNS, rows(night))]
    failed = [row for row in night.rows if row.verdict not in ("as expected", NOT_RUN)]
    if failed:
        lines += ["", "## What failed"]
        for row in failed:
            lines += _section(row)
    if any(row.router == "stand-in" for row in night.rows):
        lines += [
            "",
            "Router `stand-in`: what it does above the shards is an imitation, what happens inside them the server's.",
        ]
    seconds = f"{night.seconds:.0f} s"
    lines += ["", f"Plan {night.plan}, begun {night.began}, {seconds}, seed {night.seed}."]
    return "\n".join(lines) + "\n"


def cases(night: Night, out: Path) -> list[Case]:
    """`out`: where the logs are that the rows name."""
    return [_case(row, out) for row in night.rows]


def _case(row: Row, out: Path) -> Case:
    why = "\n".join([*row.reasons, row.command]) or row.verdict
    suite, _, name = row.cell.partition("/")
    properties = {"server": row.server, "router": row.router, "outcome": row.outcome, "record": row.record}
    failed = row.verdict not in ("as expected", NOT_RUN)
    return Case(
        suite=f"nightly.{suite}",
        name=name,
        seconds=row.seconds,
        failure=why if row.verdict == "not as expected" else None,
        error=why if row.verdict == UNKNOWN else None,
        skipped=why if row.verdict == NOT_RUN else None,
        output=_last_lines(out / row.log) if failed and row.log is not None else "",
        properties={key: value for key, value in properties.items() if value is not None},
    )


def _last_lines(log: Path) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
    except OSError as error:
        return f"{log} cannot be read: {error.strerror}"


def _cells(row: Row) -> tuple[str, ...]:
    server = row.version if row.server in (None, row.version) else f"{row.version} ({row.server})"
    scenario, fault = _called(row)
    expected = " or ".join(row.expected) or NOTHING
    seconds = f"{row.seconds:.1f}" if row.seconds else NOTHING
    router = row.router or NOTHING
    return server, router, scenario, fault, row.driver, _outcome(row), expected, row.verdict, seconds


def _called(row: Row) -> tuple[str, str]:
    """Scenario and fault, as the plan calls them."""
    scenario, _, rest = row.cell.removeprefix(f"{row.version}/").partition("/")
    return scenario, rest.rpartition("/")[0]


def _outcome(row: Row) -> str:
    outcome = row.outcome or NOTHING
    if len(row.counts) > 1:
        outcome += f" ({', '.join(f'{count} {one}' for one, count in row.counts.items())})"
    if row.lookup == NOT_ROUTED and row.scenario == UpdateLookupStall.name:
        outcome += f": {NOT_ROUTED}"
    return outcome


def _section(row: Row) -> list[str]:
    lines = ["", f"### {row.cell}: {row.verdict}", "", *(f"- {_plain(one)}" for one in row.reasons), ""]
    kept = [f"`{one}`" for one in (row.log, row.record) if one is not None]
    if kept:
        lines += [f"Kept: {', '.join(kept)}. Once more:", ""]
    return [*lines, "```", row.command, "```"]


def _table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return markdown(columns, [[_plain(cell) for cell in one] for one in body])


def _plain(text: str) -> str:
    """On one line, and nothing of it taken for HTML."""
    return " ".join(text.split()).replace("<", "&lt;")
