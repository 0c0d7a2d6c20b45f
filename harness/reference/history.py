"""Kinds of the lines of a history, and the fields of each: the table that the history's own module holds."""

from __future__ import annotations

import re
import textwrap

from harness import history
from harness.reference.markdown import block, plain

KIND = re.compile(r"^([a-z]+(?:\.[a-z_]+)*)\s+(\S.*)$")


def page() -> str:
    introduction, _ = _halves()
    parts = [
        "# Kinds of a history\n",
        "Made out of the code. `history.jsonl` is the record of a run, from which all else is made.\n",
        plain(introduction) + "\n",
        *(f"## {kind}\n\n{block(fields)}" for kind, fields in kinds().items()),
    ]
    return "\n".join(parts)


def kinds() -> dict[str, str]:
    """Each kind, and what is said of its fields, line by line."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in _halves()[1].splitlines():
        if named := KIND.match(line):
            lines = found.setdefault(named[1], [])
            lines.append(named[2])
        else:
            lines.append(line)
    return {kind: _flush(lines) for kind, lines in found.items()}


def _halves() -> tuple[str, str]:
    """What is said of all kinds; the table."""
    document = history.__doc__ or ""
    start = re.search(r"^run\.started", document, re.MULTILINE)
    if start is None:
        raise ValueError("the module of the history has no table of its kinds any more")
    return document[: start.start()].strip(), document[start.start() :]


def _flush(lines: list[str]) -> str:
    first, *more = lines
    return "\n".join((first, textwrap.dedent("\n".join(more)))).strip()
