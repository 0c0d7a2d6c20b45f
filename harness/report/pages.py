"""What pages in Markdown share."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    cells = ([one.replace("|", "\\|") for one in row] for row in rows)
    return [f"| {' | '.join(one)} |" for one in (columns, ["---"] * len(columns), *cells)]
