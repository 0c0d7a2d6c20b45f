"""What a run came to that counts copies of writes: prediction beside measurement, and where its writes went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from harness.checkers import counts, cut, effects, overlap, predicted
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
        told += _in_part(found)
    if cut.NAME in findings:
        told.append(_max_time(findings[cut.NAME]))
    if counts.NAME in findings:
        told += _terms(findings[counts.NAME])
    told += [f"rule: {rule}" for rule in findings[overlap.NAME]["rules"]]
    return told


def _max_time(found: Mapping[str, Any]) -> str:
    """Whether it ended the writes in the server."""
    limits = f"maxTimeMS {duration(found['max_time'])}"
    if found["socket_timeout"] is not None:
        limits += f", below socketTimeoutMS {duration(found['socket_timeout'])},"
    if found["cut"] is None:
        return f"{limits} had nothing to end"
    if found["cut"] == "yes":
        return (
            f"{limits} ended each of {found['held']} executions in the server: error 50 after one send, "
            f"{_copies(found)} at once, {found['effective']} took effect"
        )
    word = "did not end the writes" if found["cut"] == "no" else "did not end all of the writes"
    return (
        f"{limits} {word}: of {found['held']} executions {found['ended_on_first_send']} ended with error 50 after one "
        f"send, {found['ended_on_resend']} with the error 50 of their resend, {found['timed_out']} with the driver's "
        f"timeout; {_copies(found)} at once, {found['effective']} took effect"
    )


def _copies(found: Mapping[str, Any]) -> str:
    return "1 copy" if found["copies_at_once"] == 1 else f"{found['copies_at_once']} copies"


def _terms(found: Mapping[str, Any]) -> Iterable[str]:
    """Of each member, where what came in over the wire went."""
    for check in found["checks"]:
        if check["term"] == counts.READ:
            term = check["figures"]
            yield (
                f"{check['where']}: the tap read {term['tap']} = {term['counters'] - term['internal']} counted by the "
                f"server + {term['rejected']} rejected by fail points + {term['never read']} never read"
                + (f" + {term['in flight']} in flight" if term["in flight"] else "")
            )


def _in_part(found: Mapping[str, Any]) -> Iterable[str]:
    """Of each write on many documents that was done in part, how much of it."""
    for row in found["writes"]:
        if row["partial"]:
            yield f"write {row['write']} done in part: {row['done']}"


def _number(value: int | None) -> str:
    return UNBOUNDED if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "never" if value is None else duration(round(value, 2))
