"""The pages of docs/ against the code: each command that is quoted exists, each message is one that is printed."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import mongofault
from harness import exits
from harness.cli import app
from harness.nightly.cells import cells
from harness.nightly.plan import parse as parse_plan
from harness.reference.commands import options
from harness.scenarios.parameters import build, named
from harness.scenarios.update_lookup_stall import StallParameters

ROOT = Path(__file__).parent.parent
PAGES_BY_HAND = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
ROOMS = ("clusters", "faults", "harness")
HOLE = "\0"
"""Stands for what is put into a message."""


def blocks(page: Path, *infos: str) -> Iterator[str]:
    for info, body in BLOCK.findall(page.read_text()):
        if info in infos:
            yield body


def quoted() -> Iterator[Any]:
    """Every line that begins with `mongofault` in a block of commands, and every one within backticks."""
    for page in PAGES_BY_HAND:
        text = page.read_text()
        lines = [line for body in blocks(page, "sh", "", "sh install") for line in body.splitlines()]
        lines += [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
        for line in lines:
            if re.match(r"mongofault [a-z-]", line):
                yield pytest.param(line, id=f"{page.name}: {line[:70]}")


def words_of(line: str) -> list[str]:
    """Of a command of the shell, up to a pipe or the like."""
    lexer = shlex.shlex(line.replace("...", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(takewhile(lambda word: word[0] not in "|;&<>()", lexer))


@pytest.mark.parametrize("line", list(quoted()))
def test_a_command_that_is_quoted_exists_with_its_options(line: str) -> None:
    words = words_of(line)[1:]
    command, below = typer.main.get_command(app), ""
    while words and words[0] in getattr(command, "commands", {}):
        below = words.pop(0)
        command = command.commands[below]  # type: ignore[attr-defined]
    if hasattr(command, "commands"):
        # A group alone may be spoken of; whatever comes behind it must be one of its commands, or a word for them.
        assert all(word.isupper() or word.startswith("--") for word in words), f"no such command: {line}"
    known = set(options(command)) | {"--help"}
    if "--" in words:
        words = words[: words.index("--")]
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert set(given) <= known, f"{below}: no such option in: {line}"


@cache
def printed() -> tuple[str, ...]:
    """Every text of the code, what is put into it being a HOLE."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (one.value if isinstance(one, ast.Constant) else HOLE for one in node.values)
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return tuple(found)


def environment() -> set[str]:
    """Names of variables of ours, or of the programs we speak to, that stand in the code by themselves."""
    return {
        text
        for text in printed()
        if re.fullmatch(r"MONGO(FAULT|DB)_[A-Z_]+|MONGO_IMAGE|(DOCKER|MOTOR|BROWSER)_[A-Z_]+", text)
    }


def test_every_variable_of_the_environment_and_every_exit_code_is_explained() -> None:
    page = (ROOT / "docs/command-line.md").read_text()
    assert {name for name in environment() if f"`{name}`" not in page} == set()
    codes = {value for value in vars(exits).values() if isinstance(value, int)}
    assert {code for code in codes if f"\n| {code} | " not in page} == set()
    assert len(environment()) > 8


def messages() -> Iterator[Any]:
    for page in PAGES_BY_HAND:
        for body in blocks(page, "text message"):
            yield pytest.param(body.strip(), id=body.strip()[:70])


@pytest.mark.parametrize("message", list(messages()))
def test_a_message_that_is_quoted_stands_in_the_code(message: str) -> None:
    pattern = re.compile(".*".join(re.escape(part) for part in message.split("...")), re.DOTALL)
    assert any(pattern.search(text) for text in printed())


def examples(language: str, key: str = "") -> list[Any]:
    found = [(page, body) for page in PAGES_BY_HAND for body in blocks(page, *language.split())]
    return [pytest.param(body, id=f"{page.name}: {body.splitlines()[0][:50]}") for page, body in found if key in body]


@pytest.mark.parametrize("example", examples("python py"))
def test_an_example_in_python_uses_names_that_are_there(example: str) -> None:
    tree = ast.parse(example)
    imported = [one for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for one in bound(node)]
    assert imported
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mongofault":
            assert node.attr in mongofault.__all__


def bound(node: ast.Import | ast.ImportFrom) -> list[Any]:
    """What an import of an example comes to; fails where there is no such module or name."""
    if isinstance(node, ast.Import):
        return [importlib.import_module(one.name) for one in node.names]
    module = importlib.import_module(str(node.module))
    return [getattr(module, one.name) for one in node.names]


@pytest.mark.parametrize("plan", examples("yaml", "versions:"))
def test_a_plan_that_is_shown_is_one(plan: str) -> None:
    assert cells(parse_plan(plan, "shown"), "shown")


@pytest.mark.parametrize("parameters", examples("yaml", "driver-option: [socketTimeoutMS=3000]"))
def test_parameters_that_are_shown_are_those_of_the_scenario(parameters: str) -> None:
    given = named(StallParameters, yaml.safe_load(parameters), "shown")
    assert build(StallParameters, given).streams == given["streams"]


@pytest.mark.parametrize(
    "page",
    [ROOT / one for one in ("README.md", "compose/README.md", "jstests_port/README.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_outside_of_the_site_links_to_what_is_there(page: Path) -> None:
    """Those of the site are looked at by its build."""
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", BLOCK.sub("", page.read_text()))
    assert [one for one in links if "://" not in one and not (page.parent / one).exists()] == []


def test_there_are_messages_to_look_at() -> None:
    assert len(list(messages())) > 20
