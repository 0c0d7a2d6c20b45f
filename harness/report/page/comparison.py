"""Runs beside each other: their pictures on one scale, from their first fault on, and a table of what differs. Pure."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.report.page.figure import Plain, figure
from harness.report.page.marks import Sheet
from harness.result import Result

FAULTS: Final = frozenset(("opening", "proven", "unproven"))
"""Styles of the bars that a fault begins with."""
ABSENT: Final = "(none)"


def beside(sheets: Sequence[Sheet]) -> list[Plain]:
    """The figures. One alone is as it is; several have one legend, that of the last, and show as many seconds."""
    if len(sheets) == 1:
        return [_with_origin(figure(sheets[0]), 0.0)]
    origins = [origin(sheet) for sheet in sheets]
    before = max(at - sheet.start for at, sheet in zip(origins, sheets, strict=True))
    after = max(sheet.end - at for at, sheet in zip(origins, sheets, strict=True))
    shown = [
        dataclasses.replace(sheet, start=at - before, end=at + after) for at, sheet in zip(origins, sheets, strict=True)
    ]
    styles = {style for sheet in shown for style in sheet.styles}
    legends = [set[str]()] * (len(shown) - 1) + [styles]
    figures = [figure(sheet, legend, notes=False) for sheet, legend in zip(shown, legends, strict=True)]
    return [_with_origin(one, at) for one, at in zip(figures, origins, strict=True)]


def origin(sheet: Sheet) -> float:
    """When the first fault began; without one, where the picture begins."""
    begun = [bar.start for lane in sheet.lanes() for bar in lane.bars if bar.style in FAULTS]
    return min(begun, default=sheet.start)


def differences(results: Sequence[Result]) -> str:
    """A table of HTML: what was given and found, where it is not the same in all runs."""
    told = [_told(one) for one in results]
    names = list(dict.fromkeys(name for one in told for name in one))
    rows = []
    for name in names:
        values = [one.get(name, ABSENT) for one in told]
        if any(value != values[0] for value in values):
            cells = "".join(f"<td>{html.escape(value)}</td>" for value in values)
            rows.append(f'<tr><th scope="row">{html.escape(name)}</th>{cells}</tr>')
    table = f"<table>{''.join(rows)}</table>" if rows else "<p>Nothing that was given or found.</p>"
    return f'<section class="differences"><h2>What differs</h2>{table}</section>'


def _told(result: Result) -> dict[str, str]:
    document = result.document
    silent = [row["silent_seconds"] for row in document["streams"] if row.get("silent_seconds") is not None]
    given: Mapping[str, Any] = {
        **{name: value for name, value in document["server"].items() if name != "parameters"},
        **document["server"].get("parameters", {}),
        **{f"option {name}": value for name, value in document["parameters"].items() if name != "seed"},
    }
    found = {
        "verdict": result.headline,
        "streams": ", ".join(f"{count} {one}" for one, count in result.verdict.counts.items()),
        "longest silence": f"{max(silent):.1f} s" if silent else ABSENT,
        "alarms": str(len(document["alarms"])),
    }
    return {**found, "seed": str(document["seed"]), **{name: str(value) for name, value in given.items()}}


def _with_origin(drawn: Plain, at: float) -> Plain:
    drawn["layout"]["meta"] = {"origin": at}
    return drawn
