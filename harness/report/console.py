"""A result as text that can be pasted into a ticket: the verdict, a table of streams, what each finding rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.checkers import health, isolation, overlap, release, share, timeouts
from harness.lookups import NOT_ROUTED
from harness.measures import SOUND, UNSOUND
from harness.output import print_table
from harness.report import copies, routing
from harness.report.sentences import first_sentence
from harness.result import Result

ALARM = "alarm past threshold"
STREAMS_SHOWN = 40
PROBLEMS_SHOWN = 3
MARK = {True: "holds", False: "does not hold", "unknown": "unknown"}


def show(result: Result, console: Console) -> None:
    """Print the result; nothing is wrapped, so that columns stay columns where they are pasted."""
    document = result.document
    for fault in document["faults"]:
        if fault["not_healed"]:
            console.print(Text(f"NOT HEALED: {fault['name']} on {fault['target']}: {fault['not_healed']}", "bold"))
    console.print()
    evidence = {one["name"]: one["evidence"] for one in document["findings"]}
    for table in [*copies.tables(evidence), *routing.tables(evidence)]:
        print_table(console, table)
        console.print()
    if document["streams"]:
        print_table(console, _streams(document["streams"]))
        console.print()
    for line in [*_server(document), *_faults(document), *_health(document), *_release(document)]:
        console.print(Text(line))
    for line in [*copies.lines(evidence), *routing.lines(evidence)]:
        console.print(Text(line))
    if document["counts"] or document["outcome"] in (SOUND, UNSOUND) or {overlap.NAME, isolation.NAME} & set(evidence):
        _show_findings(document["findings"], console)
    console.print()
    for table in [*_share(document["findings"]), *_usage(document["usage"])]:
        print_table(console, table)
        console.print()
    for line in _errors(document["streams"]):
        console.print(Text(line))
    console.print(Text(f"record: {document['record']}"))
    for line in _timeouts(document["findings"]):
        console.print(Text(line, "bold"))
    console.print(Text(result.headline, "bold"))
    for reason in document["reasons"][1:]:
        console.print(Text(f"  also: {reason}"))


def _show_findings(findings: list[dict[str, Any]], console: Console) -> None:
    for finding in findings:
        console.print(Text(f"{MARK[finding['valid']]:>13}  {finding['name']}: {finding['statement']}"))
        evidence = finding["evidence"]
        lines = [*evidence.get("problems", []), *evidence.get("doubts", [])]
        for line in lines[:PROBLEMS_SHOWN]:
            console.print(Text(f"{'':>13}  - {line}"))
        if len(lines) > PROBLEMS_SHOWN:
            console.print(Text(f"{'':>13}  - and {len(lines) - PROBLEMS_SHOWN} more like these, in result.json"))


def _streams(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    # A run of many faults does not judge its alarms: no column is better than one that looks as if there were none.
    left_out = () if any(row.get("alarm") for row in rows) else (ALARM,)
    columns = ("stream", "outcome", "silent", ALARM, "hung getMore", "waits for", "errors", "delivered")
    for column in columns:
        if column not in left_out:
            table.add_column(column, no_wrap=True)
    for row in rows[:STREAMS_SHOWN]:
        cells = zip(columns, _row(row), strict=True)
        table.add_row(*(Text(cell) for column, cell in cells if column not in left_out))
    if len(rows) > STREAMS_SHOWN:
        table.add_row(f"... {len(rows) - STREAMS_SHOWN} more in result.json")
    return table


def _share(findings: list[dict[str, Any]]) -> list[Table]:
    """The share of frozen streams beside what chance predicts, where that was looked at."""
    tables = []
    for evidence in (one["evidence"] for one in findings if one["name"] == share.NAME and one["evidence"]["rows"]):
        sizes = ", ".join(str(size) for size in evidence["window_sizes"])
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("since the fault", "lookups", f"1-(1-1/N)^n, N={sizes}", "frozen", "95 % band", ""):
            table.add_column(column, no_wrap=True, justify="right")
        for row in evidence["rows"]:
            low, high = row["band"]
            table.add_row(
                f"{row['seconds']:g} s", str(row["lookups"]), f"{row['predicted']:.0%}", f"{row['measured']:.0%}",
                f"{low:.0%}..{high:.0%}", "inside" if row["inside"] else "outside",
            )  # fmt: skip
        tables.append(table)
    return tables


def _usage(usage: Mapping[str, Any]) -> list[Table]:
    """Memory and CPU by group of processes, where they were sampled."""
    if not usage:
        return []
    table = Table(box=None, pad_edge=False, header_style="bold")
    phases = [name for name in ("settle", "hold", "run") if name in usage["cores"]]
    sampled = f"sampled every {usage['sampled_every']:.1f} s"
    for column in (sampled, "processes", "memory at most", *(f"cores, {name}" for name in phases)):
        table.add_column(column, no_wrap=True, justify="left" if column == sampled else "right")
    for group, count in usage["processes"].items():
        cores = (f"{usage['cores'][name][group]:.2f}" for name in phases)
        table.add_row(group, str(count), f"{usage['peak_rss_mib'][group]} MiB", *cores)
    total = (f"{sum(usage['cores'][name].values()):.2f}" for name in phases)
    table.add_row("all", str(sum(usage["processes"].values())), f"{usage['peak_rss_mib']['all']} MiB", *total)
    return [table]


def _row(row: Mapping[str, Any]) -> list[str]:
    getmore = row.get("getmore") or {}
    hung = ""
    if getmore:
        hung = f"{getmore['member']} {getmore['seconds']:.1f} s (maxTimeMS {getmore['max_time_ms']})"
    alarm = row.get("alarm") or {}
    delay = alarm.get("delay")
    delivery = row.get("delivery") or {}
    return [
        str(row["stream"]),
        str(row.get("outcome")),
        _seconds(row.get("silent_seconds")),
        _seconds(delay),
        hung,
        str(row.get("waits_for") or ""),
        str(row.get("error_count", "")),
        str(delivery.get("delivered", "")),
    ]


def _errors(rows: list[dict[str, Any]]) -> list[str]:
    """Each distinct error that consumers got, and how many of them."""
    seen: Counter[tuple[Any, str]] = Counter()
    for row in rows:
        seen.update({(error["code"], first_sentence(error["error"])) for error in row.get("errors", [])})
    return [f"error of {count} streams: code {code}, {error}" for (code, error), count in seen.items()]


def _timeouts(findings: list[dict[str, Any]]) -> list[str]:
    """What became of the driver's timeouts, if any were set: the question that such a run asks."""
    return [line for one in findings if one["name"] == timeouts.NAME for line in one["evidence"].get("problems", [])]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _server(document: Mapping[str, Any]) -> list[str]:
    server = document["server"]
    if not server:
        return []
    line = f"server {server['version']} ({server['git_version'][:10]}), router: {server['router']}"
    line += f", {_driver(document['driver'])}, seed {document['seed']}"
    routers = [one for found in _evidence(document, isolation.NAME) for one in found["routers"]]
    if asked := [one["router"] for one in routers if one["in_process"]]:
        line += f"; operations went through the router code inside {' and '.join(asked)}, which is the server's"
    elif server["router"] == "stand-in":
        line += "; what a router does above the shards is an imitation, what happens inside the shards is the server's"
    lines = [line]
    if server.get("lookup") == NOT_ROUTED:
        lines.append(f"post-images: {NOT_ROUTED}")
    return lines


def _driver(driver: Mapping[str, Any]) -> str:
    text = f"driver: {driver.get('name', 'pymongo')} {driver.get('version', 'of a version not recorded')}"
    return text + (f" on pymongo {driver['pymongo']}" if driver.get("name") == "motor" else "")


def _faults(document: Mapping[str, Any]) -> list[str]:
    times = ("opened", "proven", "healed", "recovered")
    return [
        f"fault {' '.join([fault['name'], *fault['options']])} on {fault['target']}: "
        + ", ".join(f"{what} {_at(fault[what])}" for what in times)
        for fault in document["faults"]
    ]


def _health(document: Mapping[str, Any]) -> list[str]:
    """How the target looked to others while it was held: to hello, to heartbeats, to monitors, and to the canary."""
    rows = [row for one in _evidence(document, health.NAME) for row in one["targets"]]
    return [
        f"{row['target']} during the hold looked {'healthy' if row['healthy'] else 'NOT healthy'}: "
        f"hello {_of(row['hello'])}, heartbeats of {', '.join(row['heartbeats']['by'])} {_of(row['heartbeats'])}, "
        f"monitor of {', '.join(row['monitor']['by'])} {_of(row['monitor'])}; "
        f"canary: {', '.join(f'{probe} {_of(counts)}' for probe, counts in row['probes'].items() if probe != 'hello')}"
        for row in rows
    ]


def _of(counts: Mapping[str, int]) -> str:
    return f"{counts['healthy']} of {counts['looks']}"


def _release(document: Mapping[str, Any]) -> list[str]:
    """How the stalled streams were freed, and the errors that consumers got from it."""
    return [
        f"release {one['release']}: {len(one['streams'])} stalled streams freed by {one['freed_by']}, "
        f"{one['errors']} errors surfaced, {one['resumed_by_driver']} resumes by the driver, "
        f"{one['resumed_by_consumer']} by the consumer"
        for one in _evidence(document, release.NAME)
    ]


def _evidence(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The evidence of a finding, if there is that finding."""
    return [finding["evidence"] for finding in document["findings"] if finding["name"] == name]


def _at(value: float | None) -> str:
    return "never" if value is None else f"at {value:.1f} s"
