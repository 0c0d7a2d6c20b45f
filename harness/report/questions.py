"""A finding of a suite as a page to keep: each question, how it was asked, of what, the numbers, the answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.pages import markdown
from harness.scenarios.parameters import typed
from harness.suites.findings import Findings
from harness.suites.question import Answer, Comparison, plain


def rows(findings: Findings) -> list[tuple[str, str, str]]:
    """Of each question its title, its verdict and how many of its comparisons hold: a table for the terminal."""
    return [(one.question.title, one.verdict, _score(one)) for one in findings.answers]


def summary(findings: Findings) -> str:
    verdicts = [one.verdict for one in findings.answers]
    told = ", ".join(
        f"{verdicts.count(one)} {one}" for one in ("confirmed", "contradicted", "unknown", "open") if one in verdicts
    )
    return f"{len(verdicts)} questions: {told}; {findings.seconds:.0f} s, record {findings.record}"


def page(findings: Findings, parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown. `parameters` of the runs by name, as `retry-overlap` has them."""
    server = findings.server
    drivers = sorted({run.driver for run in findings.evidence.runs.values() if run.driver})
    shell = findings.evidence.looks.get("mongosh", {}).get("on", {}).get("version")
    lines = [
        "# Overlapping copies: the questions, and what this server answers",
        "",
        "Written by `mongofault run retry-overlap --suite questions`, not by hand. `confirmed`: every figure is what",
        "it is held to be; `contradicted`: one is not. `open`: nothing here can answer it; `unknown`: it was tried and",
        "came to no end that counts. Sends are counted by a tap on the wire, copies by the member's log; what is",
        "sampled says so.",
        "",
        f"- server: mongod {server.version} ({server.git_version[:10]}), router of the sharded runs: {findings.router}",
        f"- drivers: {', '.join([*drivers, *([f'mongosh {shell}'] if shell else [])])}",
        f"- {len(findings.evidence.runs)} runs and {len(findings.evidence.looks)} looks, each on a cluster of its own: "
        f"{findings.seconds:.0f} s; seed {findings.seed}",
        "",
        *markdown(
            ("question", "answer"),
            [(one.question.title, f"{one.verdict} {_score(one)}".strip()) for one in findings.answers],
        ),
    ]
    for one in findings.answers:
        lines += _section(one, findings)
    lines += ["", "## The runs", "", "What is not said is the default of `retry-overlap`.", ""]
    lines += markdown(("run", "options"), [(name, _options(parameters[name])) for name in findings.evidence.runs])
    return "\n".join(lines) + "\n"


def _section(one: Answer, findings: Findings) -> Sequence[str]:
    question = one.question
    lines = ["", f"## {question.title}", "", f"**{one.verdict}**" + (f": {one.reason}" if one.reason else "")]
    if question.stands:
        lines += ["", f"Held to be so: {question.stands}"]
    if question.method:
        asked = [*question.runs, *(f"the look {name}" for name in question.looks)]
        lines += ["", f"How: {question.method} ({', '.join(asked)})."]
    if any("sharded" in name for name in question.runs):
        lines += ["", f"Router: {findings.router}."]
    if one.comparisons:
        lines += ["", *markdown(("figure", "found", "expected", ""), [_row(each) for each in one.comparisons])]
    if question.judge is not None and question.left_open:
        lines += ["", f"Left open: {question.left_open}."]
    return lines


def _row(one: Comparison) -> tuple[str, ...]:
    return one.what, plain(one.found), one.expected, "" if one.holds else "**differs**"


def _score(one: Answer) -> str:
    if not one.comparisons:
        return ""
    return f"({sum(each.holds for each in one.comparisons)} of {len(one.comparisons)} figures)"


def _options(parameters: Mapping[str, Any]) -> str:
    return f"`{' '.join(typed(parameters))}`" if parameters else "none"
