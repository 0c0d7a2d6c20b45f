"""A sheet as a plotly figure: plain data in plotly's terms. It knows nothing of what the marks mean.

The axis of the lanes counts pixels from the top, so that every row is as high as it was meant to be.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.report.page.marks import Bar, Curve, Lane, Panel, Point, Sheet
from harness.report.page.styles import BLUE, INK, STYLES

HEADING: Final = 26.0
"""Pixels of a section's title."""
GAP: Final = 7.0
"""Pixels between lanes."""
PANEL: Final = 96.0
"""Pixels of a panel of curves."""
ABOVE: Final = 40
BELOW: Final = 52
"""Pixels around the plot: the tool bar, the axis of time."""
NO_LEGEND: Final = 16
SWATCH: Final = 62
"""Pixels of the legend besides its words."""
LEGEND_ROW: Final = 20
LEGEND_TITLE: Final = 30
LABEL: Final = 34
"""Characters of a label; a longer one is cut in the middle, and whole where its lane is pointed at."""
CHARACTER: Final = 6.6
LEGEND_CHARACTER: Final = 7.2
"""Pixels of a character of a label, and of the legend, at most."""
TALL: Final = 900.0
"""Pixels past which the times stand above the picture too: one end of it is out of sight."""
AT_THE_TOP: Final = {
    "side": "top",
    "position": 1,
    "overlaying": "x",
    "matches": "x",
    "showgrid": False,
    "showspikes": False,
    "ticklen": 0,
    "title": {"text": ""},
}
FONT: Final = "system-ui, 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif"

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    lane: Lane
    top: float

    def middle(self, track: int) -> float:
        return self.top + sum(self.lane.tracks[:track]) + self.lane.tracks[track] / 2

    @property
    def height(self) -> float:
        return sum(self.lane.tracks)


def figure(sheet: Sheet, named: Iterable[str] | None = None, *, notes: bool = True) -> Plain:
    """`data` and `layout`; its width is that of what it is put in.

    `named` are the styles in its legend, those of another figure among them; None: its own, and with none it has none.
    `notes` are wider than half a screen is.
    """
    rows, headings, lanes_height = _rows(sheet, notes)
    height = lanes_height + (HEADING + PANEL) * len(sheet.panels)
    data = [*_bars(rows, sheet), *_points(rows)]
    for number, panel in enumerate(sheet.panels):
        data += [_curve(curve, f"y{number + 2}") for curve in panel.curves]
    used = sheet.styles
    named = used if named is None else set(named)
    data += [_absent(key) for key in named - used]
    legend = len(named) * LEGEND_ROW + len({STYLES[one].group for one in named}) * LEGEND_TITLE
    data.sort(key=lambda one: list(STYLES).index(one["meta"]))
    _title_groups(data)
    layout: Plain = {
        "height": max(height, legend) + ABOVE + BELOW,
        "margin": {
            "l": _left(rows),
            "r": _right(named),
            "t": ABOVE,
            "b": BELOW,
            "autoexpand": False,
        },
        "showlegend": bool(named),
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": "#20262d", "font": {"color": "#ffffff", "size": 12}},
        "dragmode": "zoom",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": INK, "activecolor": BLUE},
        "legend": {"x": 1, "xanchor": "left", "y": 1, "groupclick": "toggleitem", "tracegroupgap": 8},
        "uniformtext": {"mode": "hide", "minsize": 9},
        "annotations": headings,
        "xaxis": {
            "range": [sheet.start, sheet.end],
            "anchor": "free",
            "position": 0,
            "ticksuffix": " s",
            # Below the lowest of the values beside it, which its first label would touch.
            "ticks": "outside",
            "ticklen": 9,
            "tickcolor": "rgba(0,0,0,0)",
            "showgrid": True,
            "gridcolor": "rgba(128,138,150,.25)",
            "zeroline": False,
            "showspikes": True,
            "spikemode": "across",
            "spikesnap": "cursor",
            "spikethickness": 1,
            "spikedash": "dot",
            "spikecolor": INK,
            "title": {"text": "run time", "standoff": 4, "font": {"size": 11}},
        },
        "yaxis": {
            "range": [lanes_height, 0],
            "domain": [1 - lanes_height / height if height else 0, 1],
            "fixedrange": True,
            "tickvals": [row.top + row.height / 2 for row in rows],
            "ticktext": [html.escape(shortened(row.lane.label)) for row in rows],
            "tickfont": {"size": 11},
            "showgrid": False,
            "zeroline": False,
        },
    }
    if height > TALL:
        layout["xaxis2"] = layout["xaxis"] | AT_THE_TOP
        data.append(_unseen(sheet))
    top = lanes_height
    for number, panel in enumerate(sheet.panels):
        top += HEADING
        layout["annotations"].append(_heading(panel.title, 1 - (top - HEADING / 2) / height, "paper"))
        domain = [max(0.0, 1 - (top + PANEL) / height), 1 - top / height]
        layout[f"yaxis{number + 2}"] = _values(panel, domain)
        top += PANEL
    return {"data": data, "layout": layout}


def shortened(label: str) -> str:
    if len(label) <= LABEL:
        return label
    kept = LABEL - 1
    return f"{label[: kept // 2]}…{label[len(label) - (kept - kept // 2) :]}"


def _rows(sheet: Sheet, notes: bool) -> tuple[list[_Row], list[Plain], float]:
    rows, headings, top = [], [], 0.0
    for section in sheet.sections:
        title = f"{section.title}, {section.note}" if notes and section.note else section.title
        headings.append(_heading(title, top + HEADING / 2, "y"))
        top += HEADING
        for lane in section.lanes:
            rows.append(_Row(lane, top))
            top += rows[-1].height + GAP
    return rows, headings, top


def _heading(text: str, y: float, reference: str) -> Plain:
    return {
        "text": f"<b>{html.escape(text)}</b>",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": y,
        "yref": reference,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12},
    }


def _left(rows: Sequence[_Row]) -> int:
    longest = max((len(shortened(row.lane.label)) for row in rows), default=0)
    return int(max(longest, 6) * CHARACTER) + 16


def _right(named: Collection[str]) -> int:
    """Room for the legend."""
    if not named:
        return NO_LEGEND
    return int(max(len(STYLES[one].name) for one in named) * LEGEND_CHARACTER) + SWATCH


def _text(text: str) -> str:
    return "<br>".join(html.escape(line) for line in wrapped(text))


def wrapped(text: str, width: int = 100) -> Iterable[str]:
    """Lines that fit on the screen; a long one goes on below, and so does a word that is longer than a line."""
    for line in text.split("\n"):
        yield from textwrap.wrap(line, width, subsequent_indent="   ", break_on_hyphens=False) or [""]


def _bars(rows: Sequence[_Row], sheet: Sheet) -> Iterable[Plain]:
    """One trace for each style. What is shown in part bears no caption: it would be cut as well."""
    found: dict[str, list[tuple[_Row, Bar]]] = {}
    for row in rows:
        for bar in row.lane.bars:
            found.setdefault(bar.style, []).append((row, bar))
    for key, bars in found.items():
        style = STYLES[key]
        yield {
            **_named(key),
            "type": "bar",
            "orientation": "h",
            "base": [round(bar.start, 4) for _, bar in bars],
            "x": [round(max(bar.end - bar.start, 0.0), 4) for _, bar in bars],
            "y": [row.middle(bar.track) for row, bar in bars],
            "width": [row.lane.tracks[bar.track] - 1 for row, bar in bars],
            "text": [
                html.escape(bar.caption) if sheet.start <= bar.start and bar.end <= sheet.end else "" for _, bar in bars
            ],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "insidetextfont": {"color": "#14181d", "size": 11},
            "customdata": [_text(bar.text) for _, bar in bars],
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {
                "color": style.colour,
                "line": {"color": "#14181d" if any(bar.caption for _, bar in bars) else style.colour, "width": 0.5},
                "pattern": {
                    "shape": style.hatch,
                    "fillmode": "overlay",
                    "fgcolor": "#ffffff",
                    "fgopacity": 0.75,
                    "size": 6,
                    "solidity": 0.28,
                },
            },
        }


def _points(rows: Sequence[_Row]) -> Iterable[Plain]:
    found: dict[str, list[tuple[_Row, Point]]] = {}
    for row in rows:
        for point in row.lane.points:
            found.setdefault(point.style, []).append((row, point))
    for key, points in found.items():
        style = STYLES[key]
        yield {
            **_named(key),
            "type": "scatter",
            "mode": "markers",
            "cliponaxis": False,
            "x": [round(point.at, 4) for _, point in points],
            "y": [row.middle(point.track) for row, point in points],
            "customdata": [_text(point.text) for _, point in points],
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {
                "color": style.colour,
                "symbol": style.symbol,
                "size": 10,
                "line": {"color": "#14181d", "width": 1} if not str(style.symbol).endswith("open") else {"width": 1.6},
            },
        }


def _curve(curve: Curve, axis: str) -> Plain:
    style = STYLES[curve.style]
    drawn: Plain = {
        **_named(curve.style),
        "type": "scatter",
        "yaxis": axis,
        "x": [round(one, 4) for one in curve.at],
        "y": [round(one, 3) for one in curve.value],
        "hovertemplate": f"{html.escape(curve.name)}: %{{y:.4~g}}<br>from %{{x:.2f}} s<extra></extra>",
    }
    if curve.sampled:
        marker = {"color": style.colour, "symbol": style.symbol, "size": 7}
        return {**drawn, "mode": "markers", "marker": marker}
    return {**drawn, "mode": "lines", "line": {"shape": "hv", "color": style.colour, "width": 2, "dash": style.line}}


def _values(panel: Panel, domain: Sequence[float]) -> Plain:
    highest = max((max(curve.value) for curve in panel.curves if curve.value), default=1.0)
    return {
        "domain": domain,
        "anchor": "x",
        "range": [0, highest * 1.1 or 1.0],
        "fixedrange": True,
        "nticks": 4,
        "tickformat": "~g",
        "gridcolor": "rgba(128,138,150,.25)",
        "zeroline": True,
        "zerolinecolor": "rgba(128,138,150,.5)",
        "tickfont": {"size": 11},
    }


def _unseen(sheet: Sheet) -> Plain:
    """Plotly draws an axis only where something is drawn along it."""
    point = {"x": [sheet.start], "y": [0], "mode": "markers", "marker": {"opacity": 0}, "hoverinfo": "skip"}
    return {"type": "scatter", "xaxis": "x2", "meta": "axis", "showlegend": False, **point}


def _absent(key: str) -> Plain:
    """Of a style that the other picture has and this has not, for the one legend of both."""
    style = STYLES[key]
    looks = {
        "color": style.colour,
        "pattern": {"shape": style.hatch, "fgcolor": "#ffffff", "size": 6, "solidity": 0.28},
    }
    if style.symbol is None and style.line is None:
        return {**_named(key), "type": "bar", "orientation": "h", "base": [], "x": [], "y": [], "marker": looks}
    drawn = {"marker": {"color": style.colour, "symbol": style.symbol, "size": 10}, "mode": "markers"}
    if style.line is not None:
        drawn = {"line": {"color": style.colour, "width": 2, "dash": style.line}, "mode": "lines"}
    # Without a point of its own plotly leaves a trace out of the legend.
    return {**_named(key), "type": "scatter", "x": [None], "y": [None], **drawn}


def _named(key: str) -> Plain:
    style = STYLES[key]
    return {"name": style.name, "meta": key, "legendgroup": style.group, "showlegend": key != "phase"}


def _title_groups(data: Sequence[Plain]) -> None:
    """The first trace of each group bears the group's title."""
    titled: set[str] = set()
    for trace in data:
        if trace["showlegend"] and trace["legendgroup"] not in titled:
            titled.add(trace["legendgroup"])
            trace["legendgrouptitle"] = {"text": trace["legendgroup"]}


def counted(drawn: Mapping[str, Any]) -> int:
    """Marks of a figure, as they are drawn."""
    return sum(len(one["x"]) for one in drawn["data"])
