"""The cases of stale-shard beside each other, as a table for the terminal and as a page to keep. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.report.pages import markdown
from harness.report.routing import counted_in_words, in_words
from harness.scenarios.parameters import typed
from harness.suites.cases import Row, Through, Told

COLUMNS: Final = ("case", "fine: who waited", "fine: errors", "coarse: who waited", "coarse: errors", "verdict")


def cells(row: Row) -> tuple[str, ...]:
    """One case, in the order of COLUMNS."""
    by_setting = {one.setting: one for one in row.routers}
    told: list[str] = []
    for setting in ("fine", "coarse"):
        through = by_setting.get(setting)
        told += ("", "") if through is None else (_waited(through), _errors(through))
    return row.name, *told, row.verdict


def page(told: Told) -> str:
    """Markdown."""
    server = told.server
    lines = [
        "# Stale shards: who waits behind a refresh",
        "",
        "Written by `mongofault run stale-shard --suite cases`, not by hand: one run for each row, on a cluster of its",
        "own, with a fine and a coarse router in it (`enableFinerGrainedCatalogCacheRefresh` true and false). A, B and",
        "C are the shards that hold the collection; B goes stale. `probe B` is an aggregate with a maxTimeMS of 300:",
        "it says 304 where the router has marked the shard, and 50 where it waits with all others.",
        "",
        f"- server: mongod {server['version']} ({server['git_version'][:10]})" if server else "- server: not known",
        "- routers: the router code inside the primaries of two shards that hold nothing of the collection, asked by",
        "  `clusterFind` and its like. No mongos was asked: none was to be had.",
        f"- seed {told.seed}",
        "",
        *markdown(COLUMNS, [cells(one) for one in told.rows]),
        "",
        "`all` are all operations of the collection: those for B and those for the shards that are not stale.",
        "",
        "## The runs",
        "",
    ]
    for one in told.rows:
        lines += _section(one)
    return "\n".join(lines).rstrip() + "\n"


def _section(row: Row) -> Sequence[str]:
    options = " ".join(typed(row.parameters)) or "(no options)"
    lines = [f"### {row.name}", "", f"{row.about}: `{options}`. {row.headline}.", ""]
    for one in row.routers:
        slowest = "" if one.slowest_spared is None else f"; the others took {one.slowest_spared * 1000:.0f} ms at most"
        waited = ", ".join(one.waited) or "nothing"
        lines.append(f"- {one.setting}: {one.outcome}; waited: {waited}{slowest}; {counted_in_words(one.counters)}")
    lines += [f"- {reason}" for reason in row.reasons]
    return [*lines, ""]


def _waited(through: Through) -> str:
    """Who did, and whether until the release."""
    if not through.waited:
        return "nobody"
    names = "all" if through.outcome == "collection blocked" else ", ".join(through.waited)
    return names if set(through.waited) <= set(through.pending) else f"{names}, and gave up"


def _errors(through: Through) -> str:
    """Operations by the code that they ended with."""
    by_code: dict[int | None, list[str]] = {}
    for name, code in through.codes.items():
        by_code.setdefault(code, []).append(name)
    return "; ".join(f"{in_words(code)}: {', '.join(names)}" for code, names in by_code.items()) or "none"
