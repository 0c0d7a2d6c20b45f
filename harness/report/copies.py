"""What a run came to that counts copies of writes: prediction beside measurement, and where its writes went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from harness.checkers import effects, overlap, predicted
from harness.measures import duration

UNBOUNDED = "no bound"


def tables(findings: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Of the evidence of findings, by name; none where no write was followed."""
    if predicted.NAME not in findings:
        return []
    evidence = findings[predicted.NAME]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("of each write", "predicted at most", "measured at most", "reached by"):
        table.add_column(column, no_wrap=True, justify="left" if column == "of each write" else "right")
    for row in evidence["rows"]:
        reached = f"{row['reached_by']} of {evidence['writes']}"
        table.add_row(row["what"], _number(row["predicted"]), _number(row["measured"]), reached)
    give_up = evidence["give_up"]
    if give_up["measured"] is not None or give_up["predicted"] is not None:
        table.add_row("give-up", *(_seconds(give_up[name]) for name in ("predicted", "measured")), "")
    groups = evidence["groups_at_once"]
    table.add_row(
        f"groups on the server at once, all writes (sampled every {groups['sampled_every']:.2g} s)",
        _number(groups["predicted"]),
        str(groups["measured"]),
        "",
    )
    return [table]


def lines(findings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Totals, the data left, and the rules of the prediction that do not hold with these settings."""
    if overlap.NAME not in findings:
        return []
    totals = findings[overlap.NAME]["totals"]
    told = [
        f"{totals['writes']} writes: {totals['executions']} executions, {_number(totals['sends'])} sends, "
        f"{_number(totals['copies'])} copies in {totals['groups']} groups, {_number(totals['effective'])} took effect"
    ]
    if effects.NAME in findings:
        found = findings[effects.NAME]
        marred = [
            f"{found[name]} {what}"
            for name, what in (
                ("doubled", "effects doubled"),
                ("overtaken", "overtaken by an older execution"),
                ("partial", "done in part"),
                ("rolled_back", "rolled back"),
                ("lost_unacknowledged", "lost without acknowledgement"),
            )
            if found[name]
        ]
        told.append(f"{found['documents']} documents at the end" + (f": {', '.join(marred)}" if marred else ""))
    told += [f"rule: {rule}" for rule in findings[overlap.NAME]["rules"]]
    return told


def _number(value: int | None) -> str:
    return UNBOUNDED if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "never" if value is None else duration(round(value, 2))
