"""What a run came to that counts copies of writes: prediction beside measurement, and where its writes went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from harness.checkers import counts, cut, effects, overlap, predicted, records
from harness.measures import duration

UNBOUNDED = "no bound"
NAMED = 5
"""Writes that are named in one line."""


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
        table.add_row(row["what"], _number(row["predicted"]), _counted(row["measured"]), reached)
    give_up = evidence["give_up"]
    if give_up["measured"] is not None or give_up["predicted"] is not None:
        table.add_row("give-up", *(_seconds(give_up[name]) for name in ("predicted", "measured")), "")
    groups = evidence["groups_at_once"]
    table.add_row(
        f"groups on the server at once, all writes ({_interval(groups['sampled_every'])})",
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
    told = []
    if anew := findings.get(predicted.NAME, {}).get("delivered_anew"):
        told.append(
            f"predicted is of one delivery of a record: {anew} of {totals['writes']} were delivered anew, as their "
            "consumer had left the group, and each delivery begins with all executions"
        )
    groups = f"in {totals['groups']} groups" if totals["groups"] else "without a txnNumber"
    told.append(
        f"{totals['writes']} writes: {totals['executions']} executions, {_counted(totals['sends'])} sends, "
        f"{_counted(totals['copies'])} copies {groups}, {_counted(totals['effective'])} took effect"
    )
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
        told += _rolled_back(found)
    if cut.NAME in findings:
        told.append(_max_time(findings[cut.NAME]))
    if records.NAME in findings:
        told.append(_of_records(findings[records.NAME]))
    if counts.NAME in findings:
        told += [
            f"{member}: killOp for {killed} writes inside it before the fault was healed"
            for member, killed in findings[counts.NAME].get("killed", {}).items()
        ]
        told += _sums(findings[counts.NAME])
    told += _sampled(findings[overlap.NAME])
    told += [f"rule: {rule}" for rule in findings[overlap.NAME]["rules"]]
    if warned := findings.get(predicted.NAME, {}).get("warnings"):
        names = ", ".join(one["name"] for one in warned)
        told.append(f"warnings on these settings, which 'mongofault predict' puts into words: {names}")
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


def _in_part(found: Mapping[str, Any]) -> Iterable[str]:
    """Of each write on many documents that was done in part, how much of it."""
    for row in found["writes"]:
        if row["partial"]:
            yield f"write {row['write']} done in part: {row['done']}"


def _rolled_back(found: Mapping[str, Any]) -> list[str]:
    """The executions that a failover undid, by name."""
    rows = [row for row in found["writes"] if row["rolled_back"]]
    named = [f"{row['write']} executions {', '.join(map(str, row['rolled_back']))}" for row in rows[:NAMED]]
    more = [f"and {len(rows) - NAMED} more writes, in result.json"] if len(rows) > NAMED else []
    return [f"rolled back by the failover: {'; '.join([*named, *more])}"] if rows else []


def _of_records(found: Mapping[str, Any]) -> str:
    line = f"{found['records']} records: {found['processed']} processed, {found['dead']} dead"
    if found["dead_with_effect"]:
        line += f" ({found['dead_with_effect']} of these written all the same)"
    line += f", {found['lost']} lost"
    if not found["duplicates"]:
        return line
    if found["doubts"]:
        return f"{line}; {found['duplicates']} duplicate effects, and not known whose"
    explained = max(0, found["duplicates"] - found["unexplained"])
    return f"{line}; {explained} of {found['duplicates']} duplicate effects are counted copies'"


def _sums(found: Mapping[str, Any]) -> list[str]:
    """How the tap's count and the server's come together, each term named; of members that were written to."""
    lines = []
    if others := found.get("at_the_tap", {}).get("others"):
        lines.append(
            f"at the tap: {found['at_the_tap']['writes']} sends of these writes + {others} of what prepares the run "
            "and proves the fault"
        )
    lines += [
        f"{link}: {total} at the tap; it sends them on to the shards"
        for link, total in found["through_a_router"].items()
    ]
    checks: dict[str, dict[str, Mapping[str, int]]] = {}
    for check in found["checks"]:
        checks.setdefault(check["where"], {})[check["term"]] = check["figures"]
    for member, terms in checks.items():
        by = "by fail points"
        if terms.get(counts.REJECTED, {}).get("refused"):
            by += " or as no primary"
        read, rejected, carried_out = (terms.get(one) for one in (counts.READ, counts.REJECTED, counts.CARRIED_OUT))
        if read is not None and (read["tap"] or read["counters"]):
            lines.append(
                f"{member}, read after the release: {read['tap']} at the tap + {read['internal']} of the server's "
                f"own = {read['counters']} in its counters + {read['rejected']} rejected {by} + "
                f"{read['never read']} never read + {read['in flight']} in flight"
            )
        elif rejected is not None and rejected["log"]:
            lines.append(
                f"{member}, read after the release: {rejected['log']} in its log = "
                f"{rejected['counters']} in its counters + {rejected['rejected']} rejected {by}"
            )
        if carried_out is not None and (carried_out["log"] or carried_out["counters"]):
            rest = carried_out["counters"] - carried_out["failed"] - carried_out["retried"] - carried_out["log"]
            lines.append(
                f"{member}: {carried_out['log']} carried out = {carried_out['counters']} in its counters - "
                f"{carried_out['failed']} failed - {carried_out['retried']} answered from their session's record"
                + (f" - {rest} that changed nothing" if rest else "")
            )
    return lines


def _sampled(found: Mapping[str, Any]) -> list[str]:
    """What the sampler saw of what there was: the only view of overlap while it lasts, and never called exact."""
    sampler = found["sources"]["sampled"]
    if not sampler["of_at_once"]:
        return []
    seen, there = sampler["seen_at_once"], sampler["of_at_once"]
    if not sampler["samples"]:
        return [f"sampled: none of {there} copies at once was seen in the engine"]
    line = (
        f"sampled: {seen} of {there} copies at once seen in the engine ({seen / there:.0%}), in {sampler['samples']} "
        f"samples, at most {sampler['longest_interval']:.2g} s apart"
    )
    silent = [
        f"{member} for {sum(end - begin for begin, end in spans):.2g} s"
        for member, spans in sampler["without_an_answer"].items()
        if all(end is not None for _begin, end in spans)
    ]
    return [line + (f"; it got no answer of {', '.join(silent)}" if silent else "")]


def _interval(seconds: float) -> str:
    return f"sampled every {seconds:.2g} s" if seconds else "sampled, none was seen"


def _number(value: int | None) -> str:
    return UNBOUNDED if value is None else str(value)


def _counted(value: int | None) -> str:
    return "not counted" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "never" if value is None else duration(round(value, 2))
