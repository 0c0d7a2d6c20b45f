"""The little Markdown that generated pages need: tables, blocks, and text that is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_cell(one) for one in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Words of the code as they are: what Markdown or HTML would take for its own is escaped, but for backticks."""
    parts = text.split("`")
    parts[::2] = [_escaped(one) for one in parts[::2]]
    return "`".join(parts)


def _escaped(text: str) -> str:
    for own in "\\*_[]<>":
        text = text.replace(own, f"\\{own}" if own not in "<>" else {"<": "&lt;", ">": "&gt;"}[own])
    return text


def _cell(text: str) -> str:
    """One line; what would end the cell is escaped, but within backticks, where Python-Markdown leaves it alone."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [one.replace("|", "\\|") for one in parts[::2]]
    return "`".join(parts)


FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|link)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def foreign(page: str) -> list[str]:
    """What a browser that shows this HTML would fetch from another host; links that a reader may follow are none."""
    return FETCHED.findall(page)
