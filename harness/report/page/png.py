"""The picture of a report as PNG, for a ticket: drawn by a Chromium of this machine, which kaleido starts and ends."""

from __future__ import annotations

import os
import shutil
import textwrap
from html import escape
from pathlib import Path
from typing import Any, Final

from clusters.errors import Refused
from harness.report.page.figure import ABOVE, figure
from harness.report.page.html_page import Drawn
from harness.report.page.sentence import headline, verdict

NAME: Final = "report.png"
WIDTH: Final = 1600
"""Pixels; each is drawn as SCALE by SCALE of them."""
SCALE: Final = 1.5
TITLE: Final = 24
LINE_HEIGHT: Final = 24
"""Pixels above the picture: of the headline, and of each line of the verdict."""
LINE: Final = 170
"""Characters of a line of the verdict."""
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """Raises Refused where there is none."""
    found = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or not Path(found).exists():
        raise Refused(
            f"a PNG is drawn by a Chromium, and {found or 'none'} was found: "
            "apt-get install chromium, or set BROWSER_PATH to one"
        )
    return found


def write(drawn: Drawn, path: Path) -> None:
    """Raises Refused where kaleido or a Chromium is missing, OSError where the file cannot be written."""
    browser = chromium()
    try:
        import kaleido
    except ImportError:
        raise Refused("a PNG is drawn with kaleido, which is missing: pip install 'mongofault[png]'") from None
    picture = titled(drawn)
    size = {"width": WIDTH, "height": picture["layout"]["height"], "scale": SCALE}
    # Without MathJax, which it would fetch from the network.
    image: bytes = kaleido.calc_fig_sync(
        picture, opts={"format": "png", **size}, kopts={"path": browser, "mathjax": False}
    )
    path.write_bytes(image)


def titled(drawn: Drawn) -> dict[str, Any]:
    """The figure with what the page says around it, on white."""
    picture = figure(drawn.picture.sheet)
    layout = picture["layout"]
    lines = textwrap.wrap(verdict(drawn.result), LINE)
    room = TITLE + LINE_HEIGHT * len(lines)
    layout["height"] += room
    layout["width"] = WIDTH
    layout["margin"]["t"] = ABOVE + room
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = "#ffffff"
    layout["font"]["color"] = "#1b2129"
    below = "<br>".join(f"<span style='font-size:14px'>{escape(line)}</span>" for line in lines)
    layout["title"] = {
        "text": f"<b>{escape(headline(drawn.result.document))}</b><br>{below}",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"l": 16, "t": 28},
        "font": {"size": 18},
    }
    return picture
