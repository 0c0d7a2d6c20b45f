"""The reference that is made out of the code lacks nothing: each test finds what there is in a way of its own."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import faults
import mongofault
from harness import checkers, scenarios
from harness.commands.lazily import COMMANDS, Commands
from harness.reference import PAGES
from harness.reference import history as kinds_of_history
from harness.reference.markdown import foreign, plain, table
from harness.scenarios.parameters import option_name

ROOT = Path(__file__).parent.parent
TEXTS = {path: make() for path, make in PAGES.items()}


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one; fails where there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXTS[page], re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no entry for {heading}"
    return found[1]


def close(text: str) -> str:
    """Without white space: help is broken into lines within words as well."""
    return "".join(text.split())


def below(name: str) -> list[tuple[str, Any]]:
    command = Commands()[name]
    return [(name, command), *((f"{name} {each}", one) for each, one in getattr(command, "commands", {}).items())]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help_with_each_option(name: str) -> None:
    for path, command in below(name):
        shown = section("reference/commands.md", f"mongofault {path}")
        assert shown.lstrip().startswith(f"```text\nUsage: mongofault {path} ")
        for parameter in command.params:
            for spelling in parameter.opts:
                assert spelling in shown or parameter.metavar in shown, f"{path} lacks {spelling}"
            assert close(getattr(parameter, "help", None) or "") in close(shown)


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_every_scenario_has_its_question_and_each_parameter(name: str) -> None:
    entry = section("reference/scenarios.md", name)
    assert plain(scenarios.SCENARIOS[name].question) in entry
    for field, info in scenarios.SCENARIOS[name].model.model_fields.items():
        (row,) = (line for line in entry.splitlines() if line.startswith(f"| `{option_name(field)}` |"))
        assert plain(str(info.description)).replace("|", "\\|") in row


def registered() -> list[tuple[str, str]]:
    """Module and name of every class that is registered, whether or not the package imports it."""
    pattern = re.compile(r"^@register\nclass (\w+)", re.MULTILINE)
    files = sorted((ROOT / "faults").glob("*.py"))
    return [(path.stem, name) for path in files for name in pattern.findall(path.read_text())]


@pytest.mark.parametrize(("module", "name"), registered())
def test_every_fault_has_its_needs_options_proof_and_heal(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(f"faults.{module}"), name)
    entry = section("reference/faults.md", kind.name)
    for said in (kind.needs, kind.proven_by, kind.healed_by):
        assert plain(said) in entry
    for option, field in kind.options.model_fields.items():
        (row,) = (line for line in entry.splitlines() if line.startswith(f"| `{option}` |"))
        assert field.description, f"{kind.name}: {option} says nothing of itself"
        assert close(plain(field.description)) in close(row).replace("\\|", "|")


def test_there_are_as_many_faults_as_classes() -> None:
    assert len(registered()) == len(faults.names()) == TEXTS["reference/faults.md"].count("\n## ")


def statements() -> list[str]:
    """Every guarantee that any checker's module has a sentence for."""
    modules = [
        importlib.import_module(f"harness.checkers.{one.name}") for one in pkgutil.iter_modules(checkers.__path__)
    ]
    return [text for one in modules for name, text in vars(one).items() if name.endswith("STATEMENT")]


@pytest.mark.parametrize("statement", statements())
def test_every_checker_has_its_statement(statement: str) -> None:
    assert f"\n\n**{plain(statement)}**\n" in TEXTS["reference/checkers.md"]


def test_there_are_as_many_checkers_as_statements() -> None:
    assert len(statements()) == TEXTS["reference/checkers.md"].count("\n## ")


def recorded() -> set[str]:
    """The kinds of lines that the code writes, as `record(KIND, ...)`; of a kind that is put together its beginning."""
    found = set()
    for path in (ROOT / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "record"
                and node.args
            ):
                kind = node.args[0]
                if isinstance(kind, ast.JoinedStr):
                    kind = kind.values[0]
                if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    found.add(kind.value)
    return found


@pytest.mark.parametrize("kind", sorted(recorded()))
def test_every_kind_that_is_recorded_has_its_fields(kind: str) -> None:
    known = kinds_of_history.kinds()
    of_kind = [one for one in known if one == kind or (kind.endswith(".") and one.startswith(kind))]
    assert of_kind, f"{kind} is in no table"
    for one in of_kind:
        assert known[one].splitlines()[0] in section("reference/history.md", one)


def test_the_fields_of_a_kind_are_all_its_lines() -> None:
    known = kinds_of_history.kinds()
    assert known["stream.closed"].startswith("stream, reason")
    assert known["run.started"].count("\n") > 2
    assert "write.ok" not in known["write.invoked"]


@pytest.mark.parametrize("name", mongofault.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}\b[^`]*` \| (.*) \|$", TEXTS["reference/python.md"], re.MULTILINE)
    assert row.strip()


def test_a_table_escapes_what_would_end_its_cells() -> None:
    assert table(("a",), [("x | `y|z`\nand more",)]).splitlines()[2] == "| x \\| `y|z` and more |"


def test_words_of_the_code_are_no_markup() -> None:
    assert plain("*a_b* [c] <d> `e_f`") == r"\*a\_b\* \[c\] &lt;d&gt; `e_f`"


@pytest.mark.parametrize(
    ("page", "fetched"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/css">', ["//fonts.example/css"]),
        ('<img alt="a" src="images/report.png">', []),
        ('<a href="https://example.com/">elsewhere</a>', []),
    ],
)
def test_what_a_browser_would_fetch_from_elsewhere_is_found(page: str, fetched: list[str]) -> None:
    assert foreign(page) == fetched
