"""docs/tutorial.md, done: its commands as they stand there, one after the other, in a fresh clone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aftermath import Place

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```sh( install)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.live, pytest.mark.slow]


def commands(clone: Path, *, install: bool) -> str:
    """Those of the page, as one script that ends with the first of them that fails, and tells which are run."""
    found = BLOCK.findall((clone / "docs/tutorial.md").read_text())
    return "".join(f"set -ex\n{body}" for installs, body in found if install or not installs)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.end()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What is committed, and nothing besides."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone by git")
    command = ["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "dubious ownership" in done.stderr:
        pytest.skip(f"another user's clone: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return tmp_path / "clone"


def followed(clone: Path, place: Place, environment: dict[str, str], *, install: bool, deadline: float) -> str:
    script = commands(clone, install=install)
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=clone,
        env={**place.environment, **environment},
        capture_output=True,
        text=True,
        timeout=deadline,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_the_page_says(said: str, clone: Path, place: Place) -> None:
    assert said.count("as expected: stalled (4 of 4 stalled)") == 2, "once by the run, once by the check"
    assert said.count("as expected: no effect (4 of 4 no effect)") == 1
    assert len(list(clone.glob("runs/*/result.json"))) == 2
    assert len(list(clone.glob("runs/*/report.html"))) == 2
    assert len(list(clone.glob("runs/*/comparison.html"))) == 1
    assert place.left_after() == []


@pytest.mark.timeout(420)
def test_the_tutorial_comes_to_what_it_says(clone: Path, place: Place) -> None:
    """What is installed is there already, but for the clone's own code: that is found before."""
    (clone / ".venv").symlink_to(sys.prefix)
    where = subprocess.run(
        [sys.executable, "-c", "import harness; print(harness.__file__)"],
        cwd=place.root,
        env={**place.environment, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(clone))
    said = followed(clone, place, {"PYTHONPATH": str(clone)}, install=False, deadline=400)
    as_the_page_says(said, clone, place)


@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_the_tutorial_begins_with_the_installation(clone: Path, place: Place) -> None:
    said = followed(clone, place, {}, install=True, deadline=840)
    as_the_page_says(said, clone, place)
