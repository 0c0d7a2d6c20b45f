"""What a run came to that asks who waits behind a refresh: each operation beside the same through the other router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from harness.checkers import case, isolation
from harness.watchers.routing import LINES, STALE_CODES

NAMES: Final = {code: name for name, code in STALE_CODES.items()}
LINES_SHOWN: Final = 8
"""Log lines of one router; there are more in result.json."""
SHORT: Final = {
    "countStaleConfigErrors": "stale errors",
    "countIncrementalRefreshesStarted": "incremental refreshes",
    "countFullRefreshesStarted": "full refreshes",
    "countFailedRefreshes": "failed refreshes",
}
"""Counters in words."""


def tables(findings: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Of the evidence of findings, by name; none where no router was asked."""
    if isolation.NAME not in findings:
        return []
    routers = findings[isolation.NAME]["routers"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("operation", "for the", *(f"{one['router']} ({one['setting']})" for one in routers)):
        table.add_column(column, no_wrap=True)
    for row in routers[0]["operations"]:
        cells = (_fared(_of(one["operations"], row["op"])) for one in routers)
        table.add_row(row["op"], row["belongs"] if row["belongs"] != "probe" else "stale shard, by 0.3 s", *cells)
    return [table]


def lines(findings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Router by router what it came to, its counters, its log, by the time since its first error."""
    if isolation.NAME not in findings:
        return []
    told = []
    counted = {one["router"]: one for one in findings.get(case.NAME, {}).get("routers", ())}
    for one in findings[isolation.NAME]["routers"]:
        told.append(f"{one['router']} ({one['setting']}): {summary(one)}")
        if (counters := counted.get(one["router"])) is not None:
            told.append(f"{one['router']} counted: {counted_in_words(counters['counters'])}")
            told += _log(one["router"], counters["log"])
    return told


def summary(router: Mapping[str, Any]) -> str:
    """One router in one line."""
    pending = ", ".join(router["pending"]) or "nothing"
    line = f"{router['outcome']}; pending at the release: {pending}"
    if router["slowest_spared"] is not None:
        line += f"; those that did not wait took {router['slowest_spared'] * 1000:.0f} ms at most"
    if router["after_release"] is not None:
        line += f"; all answered {router['after_release']:.2f} s after it"
    return line


def counted_in_words(counters: Mapping[str, int | None]) -> str:
    """`1 stale errors, 1 incremental refreshes, ..`"""
    return ", ".join(f"{counters[name]} {word}" for name, word in SHORT.items() if counters.get(name) is not None)


def in_words(code: int | None) -> str:
    """An error's code, with its name where it is one of routing."""
    return f"{code} {NAMES[code]}" if code in NAMES else str(code)


def _of(operations: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((one for one in operations if one["op"] == name), None)


def _fared(op: Mapping[str, Any] | None) -> str:
    if op is None:
        return "not sent"
    took = "no answer" if op["seconds"] is None else _took(op["seconds"])
    word = f"waited {took}" if op["waited"] else took
    return word if op["outcome"] == "ok" else f"{word}, {in_words(op['code']) if op['code'] else op['error']}"


def _took(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _log(router: str, log: Sequence[Mapping[str, Any]]) -> list[str]:
    """From the first error on: what is before it is how the router came to know the table."""
    first = next((number for number, one in enumerate(log) if one["code"] is not None), 0)
    log = log[first:]
    told = [
        f"{router} logged, {one['logged'] - log[0]['logged']:+.3f} s: {LINES.get(one['id'], '?')} ({one['id']})"
        + (f", {in_words(one['code'])}" if one["code"] is not None else "")
        for one in log[:LINES_SHOWN]
    ]
    if len(log) > LINES_SHOWN:
        told.append(f"{router} logged {len(log) - LINES_SHOWN} more such lines, in result.json")
    return told
