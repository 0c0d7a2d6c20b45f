"""`report.html` of a run: its history folded into lanes, drawn, and put on one page that needs nothing else.

`write` is the way in. It judges nothing: the verdict on the page is the one that the record comes to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness import result
from harness.history import read
from harness.record import HISTORY, Record
from harness.report.page.drawing import Drawing
from harness.report.page.html_page import Drawn, page
from harness.report.page.thinning import thinned
from harness.result import Result

NAME: Final = "report.html"
BESIDE: Final = "comparison.html"
"""Of two runs, so that the report of the first is not written over."""

__all__ = ["BESIDE", "NAME", "Drawn", "draw", "leave", "write"]


def draw(record: Record, judged: Result | None = None) -> Drawn:
    """Draw a stored record; unless its result is known it is judged in the same reading. Raises HistoryError."""
    drawing = Drawing()
    events = drawing.through(read(record.path / HISTORY))
    if judged is None:
        judged = result.of(events, str(record.path))
    else:
        deque(events, maxlen=0)
    return Drawn(judged, thinned(drawing.sheet(judged.document["streams"])))


def leave(record: Record, judged: Result) -> Path:
    """The report of a run that has just been judged, in its record. Raises HistoryError, OSError."""
    path = record.path / NAME
    write([draw(record, judged)], path)
    return path


def write(drawn: Sequence[Drawn], path: Path) -> None:
    """The page of one run, or of several beside each other. Raises OSError where it cannot be written, as a whole."""
    text = page(drawn)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        # Half of it would be taken for all of it.
        with suppress(OSError):
            path.unlink()
        raise
