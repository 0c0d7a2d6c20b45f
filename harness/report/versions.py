"""Server versions beside each other, as a table for the terminal and as a page to keep. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.lookups import NOT_ROUTED
from harness.report.pages import markdown
from harness.scenarios.parameters import typed
from harness.suites.versions import Compared, Row

COLUMNS: Final = ("mongod", "router", "lookup", "streams", "longest getMore", "images in the hold", "verdict")


def cells(row: Row) -> tuple[str, ...]:
    """One version, in the order of COLUMNS."""
    getmore = "" if row.longest_getmore is None else f"{row.longest_getmore:.1f} s"
    streams = f"{row.streams} {row.outcome}" if row.streams else row.outcome
    return row.version, row.router, row.lookup, streams, getmore, str(row.images), row.verdict


def page(compared: Compared) -> str:
    """Markdown."""
    lines = [
        "# updateLookup streams on other server versions",
        "",
        "Written by `mongofault run update-lookup-stall --suite versions`, not by hand: one run on each, on a cluster",
        "of its own. Streams run on one secondary, their lookups are sent to another, and that one is broken.",
        f"Options: {_options(compared.parameters)}.",
        "",
        *markdown(COLUMNS, [cells(one) for one in compared.rows]),
        "",
        f"`{NOT_ROUTED}`: shards of these versions read the post-image",
        "where the stream runs, whatever read preference comes along; the images came while the other member did not",
        "answer. A mongos of these versions can look up itself, and was not tested: nothing is said of the safety of",
        "such a cluster.",
        "",
        "`routed by the shard`: the lookup goes to a member that the read preference names, by the router code of the",
        "shard, as shards of 8.0 do by themselves. In 6.0 a mongos does it in their place; the stand-in has the shards",
        "do it.",
        "",
        "The getMores had a maxTimeMS of 1000.",
        "",
    ]
    lines += [f"- mongod {one.version} ({one.git_version[:10]}): {one.headline}" for one in compared.rows]
    return "\n".join(lines) + "\n"


def _options(parameters: Mapping[str, Any]) -> str:
    told = typed(parameters)
    return f"`{' '.join(told)}`, else the scenario's own" if told else "the scenario's own"
