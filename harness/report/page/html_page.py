"""The page around the picture: verdict, evidence, and all that it needs in the one file. No network, no server."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from harness.output import PIPE_WIDTH
from harness.report import console
from harness.report.page.assets import SCRIPT, STYLE
from harness.report.page.comparison import beside, differences
from harness.report.page.sentence import headline, verdict
from harness.report.page.thinning import Thinned
from harness.result import Result

BADGE: Final[Mapping[str, str]] = {"as expected": "good", "not as expected": "bad", "unknown": "open"}
SHOWN: Final = 5
"""Problems and doubts of one finding."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One run of a page: what it came to, and its picture."""

    result: Result
    picture: Thinned


def page(drawn: Sequence[Drawn]) -> str:
    """The whole file, of one run or of several beside each other."""
    from plotly.offline import get_plotlyjs

    figures = beside([one.picture.sheet for one in drawn])
    title = " | ".join(headline(one.result.document) for one in drawn)
    columns = "".join(_run(one, number) for number, one in enumerate(drawn))
    legend = figures[-1]["layout"]["margin"]["r"]
    above = differences([one.result for one in drawn]) if len(drawn) > 1 else ""
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n',
            f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n",
            f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n",
            '<button id="theme" type="button" aria-label="light or dark">light / dark</button>\n',
            f'<main class="runs-{len(drawn)}" style="--legend:{legend}px">{above}{columns}</main>\n',
            f'<script type="text/plain" id="figures">{embedded(figures)}</script>\n',
            f"<script>{SCRIPT}</script>\n</body>\n</html>\n",
        )
    )


def embedded(value: Any) -> str:
    """As the page's script reads it: JSON, packed (texts of marks repeat each other), in letters that end no script."""
    return base64.b64encode(gzip.compress(json.dumps(value, separators=(",", ":")).encode(), mtime=0)).decode()


def _run(one: Drawn, number: int) -> str:
    result, document = one.result, one.result.document
    return "".join(
        (
            f'<article data-run="{number}"><header><h1>{html.escape(headline(document))}</h1>',
            f'<p class="verdict {BADGE[result.verdict.verdict]}"><b>{html.escape(verdict(result))}</b></p>',
            f'<p class="small">{html.escape(document["record"])}</p></header>',
            f'<div class="picture" id="picture-{number}"></div>',
            '<p class="small">Drag over a stretch of time to zoom, all rows together; double click for the whole run. '
            f"Point at a mark to read it. {html.escape(one.picture.rule)}</p>",
            '<section><h2>Evidence</h2><table class="findings">',
            *(_finding(each, result.verdict.verdict) for each in document["findings"]),
            "</table></section>",
            f'<section><h2>For a ticket</h2><pre tabindex="0">{html.escape(as_text(result))}</pre></section>',
            f"<section><h2>How it was run</h2>{_settings(document)}</section></article>",
        )
    )


def as_text(result: Result) -> str:
    """What the command line prints of it."""
    told = io.StringIO()
    console.show(result, Console(file=told, width=PIPE_WIDTH, highlight=False, soft_wrap=True, color_system=None))
    return told.getvalue().strip()


def _finding(finding: Mapping[str, Any], word: str) -> str:
    """What does not hold is no alarm where that is what was expected."""
    broken = "expected" if word == "as expected" else "bad"
    mark = {True: ("good", "holds"), False: (broken, "does not hold")}.get(finding["valid"], ("open", "unknown"))
    evidence = finding["evidence"]
    lines = [str(line) for line in (*evidence.get("problems", ()), *evidence.get("doubts", ()))]
    more = [f"and {len(lines) - SHOWN} more, in result.json"] if len(lines) > SHOWN else []
    told = "".join(f"<li>{html.escape(line)}</li>" for line in [*lines[:SHOWN], *more])
    return (
        f'<tr><td><span class="mark {mark[0]}">{mark[1]}</span></td><th scope="row">{html.escape(finding["name"])}</th>'
        f"<td>{html.escape(finding['statement'])}{f'<ul>{told}</ul>' if told else ''}</td></tr>"
    )


def _settings(document: Mapping[str, Any]) -> str:
    server = dict(document["server"])
    parameters = server.pop("parameters", {})
    told = {
        "seed": document["seed"],
        "driver": " ".join(str(one) for one in list(document["driver"].values())[:2]),
        **server,
        **{f"server parameter {name}": value for name, value in parameters.items()},
        **{f"option {name}": value for name, value in document["parameters"].items() if value not in (None, [])},
    }
    return f"<dl>{''.join(_entries(told))}</dl>"


def _entries(told: Mapping[str, Any]) -> Iterable[str]:
    for name, value in told.items():
        yield f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd></div>"
