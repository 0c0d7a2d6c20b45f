"""The public face: one word for each fault, every name documented, the examples of docs/python.md run as they stand."""

from __future__ import annotations

import ast
import asyncio
import doctest
import io
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import faults
import mongofault
from clusters.local import OwnCluster
from faults.options import parse, written
from harness import breaking
from harness.reference.python import page

DOCS = Path(__file__).parent.parent / "docs/python.md"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def blocks(language: str) -> list[str]:
    return [part.partition("\n```")[0] for part in DOCS.read_text().split(f"```{language}\n")[1:]]


def test_every_fault_has_its_word_and_no_other_has_one() -> None:
    words = {one.name: word for word, one in vars(breaking).items() if isinstance(one, mongofault.Breaking)}
    assert words == {name: name.replace("-", "_") for name in faults.names()}
    assert set(words.values()) <= set(mongofault.__all__)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert mongofault.__all__ == sorted(mongofault.__all__)
    shown = page()
    for name in mongofault.__all__:
        one = getattr(mongofault, name)
        assert isinstance(one, str) or (one.__doc__ and not one.__doc__.startswith(f"{name}(")), name
        assert f"`{name}" in shown


@pytest.mark.parametrize(
    ("fault", "by_name", "as_text"),
    [
        ("freeze", {"how": "signal"}, ["how=signal"]),
        ("latency", {"ms": 500}, ["ms=500"]),
        ("fail-command", {"commands": ["find", "count"], "errorCode": 8}, ["commands=find,count", "errorCode=8"]),
        ("fail-command", {"commands": "find", "closeConnection": True}, ["commands=find", "closeConnection=yes"]),
        ("move-tags", {"tags": {"zone": "b"}}, ["tags=zone=b"]),
    ],
)
def test_options_by_name_mean_what_they_mean_as_text(fault: str, by_name: dict[str, Any], as_text: list[str]) -> None:
    kind = faults.by_name(fault)
    assert parse(fault, kind.options, by_name) == parse(fault, kind.options, as_text)


@pytest.mark.parametrize("given", [{"who": 1}, {"how": "hard"}, ["how"], ["who=1"]])
def test_an_option_that_is_none_is_refused_with_those_there_are(given: Any) -> None:
    with pytest.raises(mongofault.Refused, match=r"freeze takes how=auto\|signal\|pause"):
        parse("freeze", faults.by_name("freeze").options, given)
    assert all("=" in one for one in written(given) if one != "how")


def history(told: Callable[[mongofault.History], None], path: Path) -> mongofault.History:
    with mongofault.history(path, "a program") as one:
        told(one)
    return one


def in_order(h: mongofault.History) -> None:
    h.opened("s1")
    for seq in (1, 2):
        h.invoked("k", seq)
        h.acknowledged("k", seq)
        h.delivered("s1", "k", seq)


def one_missing(h: mongofault.History) -> None:
    in_order(h)
    h.invoked("k", 3)
    h.acknowledged("k", 3)


def one_twice(h: mongofault.History) -> None:
    in_order(h)
    h.delivered("s1", "k", 2)


def refused_and_delivered(h: mongofault.History) -> None:
    in_order(h)
    h.invoked("k", 3)
    h.failed("k", 3, ValueError("no"), refused=True)
    h.delivered("s1", "k", 3)


def unknown_and_delivered(h: mongofault.History) -> None:
    in_order(h)
    h.invoked("k", 3)
    h.failed("k", 3, TimeoutError())
    h.delivered("s1", "k", 3)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        (in_order, None),
        (unknown_and_delivered, None),
        (one_missing, "seq 3\\) missing"),
        (one_twice, "seq 2\\) doubled"),
        (refused_and_delivered, "refused the write"),
        (lambda h: None, "could not be established"),
    ],
)
def test_what_a_program_tells_its_history_is_judged_by_the_checkers(
    told: Callable[[mongofault.History], None], problem: str | None, tmp_path: Path
) -> None:
    one = history(told, tmp_path)
    assert sorted(path.name for path in one.directory.iterdir()) == ["history.jsonl", "report.html", "result.json"]
    if problem is None:
        one.require("delivery")
    else:
        with pytest.raises(AssertionError, match=problem):
            one.require("delivery")


def test_the_history_of_a_program_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), mongofault.history(tmp_path) as one:
        raise ZeroDivisionError("of ours")
    ended = list(mongofault.read(one.path))[-1]
    assert (ended["reason"], ended["detail"]) == ("failed", "ZeroDivisionError: of ours")


async def typed(source: str, names: dict[str, Any]) -> str:
    """What it prints, typed into `python -m asyncio`; of an error the last line of its traceback."""
    printed = io.StringIO()
    code = compile(source, "<docs>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        with redirect_stdout(printed):
            made = FunctionType(code, names)()
            if asyncio.iscoroutine(made):
                await made
    except Exception as error:
        return "Traceback (most recent call last):\n" + "".join(traceback.format_exception_only(error))
    return printed.getvalue()


@pytest.mark.live
async def test_the_examples_of_the_documentation_do_what_they_say(
    sharded: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "displayhook", lambda value: None if value is None else print(repr(value)))
    ground = mongofault.Ground(sharded, sharded.ledger, sharded.guardian)
    names: dict[str, Any] = {"mongofault": mongofault, "c": ground, "runs": tmp_path, "__builtins__": __builtins__}
    examples = [one for text in blocks("pycon") for one in doctest.DocTestParser().get_examples(text)]
    assert len(examples) > 7
    for one in examples:
        wanted = f"Traceback (most recent call last):\n{one.exc_msg}" if one.exc_msg else one.want
        got = await typed(one.source, names)
        assert doctest.OutputChecker().check_output(wanted, got, OPTIONS), f"{one.source}printed\n{got}"


@pytest.mark.live
@pytest.mark.slow
def test_the_program_of_the_documentation_names_the_stream_that_it_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks("py")
    exec(compile(program, str(DOCS), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed.startswith("orders: getMore ")
    assert "waits for shard0-0" in printed


@pytest.mark.live
@pytest.mark.matrix
async def test_a_scenario_is_run_as_its_command_runs_it(tmp_path: Path) -> None:
    result = await mongofault.run("update-lookup-stall", runs=tmp_path, shards=1, streams=2, hold="6s")
    assert result.headline.startswith("as expected: stalled")
    (record,) = tmp_path.iterdir()
    assert {"history.jsonl", "result.json", "report.html"} <= {one.name for one in record.iterdir()}
