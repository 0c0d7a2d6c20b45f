"""A night for real: one cell stalls, one is bounded, an expectation turned round is noticed; and cells that are killed,
ended or interrupted leave nothing and stop nobody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from aftermath import Place
from harness import exits

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(450)]

CHECKED_IN: Final = Path(__file__).parent.parent / ".github/nightly.yml"
STALLED: Final = "embedded/update-lookup-stall/freeze/pymongo"
BOUNDED: Final = "embedded/update-lookup-stall/slow-lookups/pymongo"
DEADLINE: Final = 400.0

LONG: Final = """\
versions: [embedded]
scenarios:
  - {name: retry-overlap, as: long, parameters: {hold: 60s}, faults: [fail-point]}
  - {name: retry-overlap, as: short, faults: [swallow]}
limits: {cell: 100s}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    one.end()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, subprocess.CompletedProcess[str]]]:
    """A night of two cells of the plan that is checked in."""
    one = Place(tmp_path_factory.mktemp("nightly"))
    yield one, one.run("nightly", str(CHECKED_IN), "--only", STALLED, "--only", BOUNDED, deadline=DEADLINE)
    one.end()


def results(place: Place) -> dict[str, Any]:
    return dict(json.loads((place.root / "nightly/results.json").read_text()))


def said_of(place: Place) -> list[tuple[str, str, str | None]]:
    """Of each cell its name, the verdict and the first reason."""
    rows = results(place)["cells"]
    return [(row["cell"], row["verdict"], row["reasons"][0] if row["reasons"] else None) for row in rows]


def in_the_hold(place: Place, process: subprocess.Popen[str]) -> int:
    """Wait until the first cell holds its fault; the pid of its run."""
    end = time.monotonic() + 100
    while not any("phase hold" in log.read_text() for log in place.root.glob("nightly/cells/*/01-*/output.log")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the first cell came to no hold"
        time.sleep(0.05)
    runs = [pid for pid in place.processes() if b"harness\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    (found,) = runs
    return found


def test_one_cell_stalls_and_one_is_bounded_as_the_plan_has_it(
    first: tuple[Place, subprocess.CompletedProcess[str]],
) -> None:
    place, done = first
    assert done.returncode == exits.AS_EXPECTED, done.stdout + done.stderr
    found = results(place)
    assert [(row["cell"], row["outcome"], row["verdict"]) for row in found["cells"]] == [
        (STALLED, "stalled", "as expected"),
        (BOUNDED, "bounded", "as expected"),
    ]
    assert {row["server"] for row in found["cells"]} == {"6.0.5"}
    assert place.left_after(1.0) == []


def test_junit_and_the_page_say_the_same_and_the_records_are_where_they_are_said_to_be(
    first: tuple[Place, subprocess.CompletedProcess[str]],
) -> None:
    place, _done = first
    out = place.root / "nightly"
    suite = ElementTree.parse(out / "junit.xml").find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")
    page = (out / "summary.md").read_text()
    assert page.startswith("# Nightly: 2 of 2 cells as expected\n\nThere is no night before")
    assert "| embedded (6.0.5) | stand-in | update-lookup-stall | slow-lookups | pymongo | bounded | bounded |" in page
    for row in results(place)["cells"]:
        assert json.loads((out / row["record"] / "result.json").read_text())["outcome"] == row["outcome"]
        assert row["outcome"] in (out / row["log"]).read_text()


def test_an_expectation_turned_round_by_hand_is_exit_1_and_says_which_cell_and_what_changed(
    first: tuple[Place, subprocess.CompletedProcess[str]],
) -> None:
    place, _done = first
    text = CHECKED_IN.read_text()
    assert "\nexpect:\n" in text
    (place.root / "turned.yml").write_text(text.replace("\nexpect:\n", '\nexpect:\n  "*/freeze/*": [bounded]\n'))
    last = results(place)
    last["cells"][0]["known"]["outcome"] = "no effect"
    (place.root / "last.json").write_text(json.dumps(last))
    done = place.run("nightly", "turned.yml", "--only", STALLED, "--last", "last.json", deadline=DEADLINE)
    assert done.returncode == exits.NOT_AS_EXPECTED, done.stdout + done.stderr
    assert f"{STALLED}: not as expected: stalled; expected bounded, observed 2 stalled of 2 streams" in done.stdout
    page = (place.root / "nightly/summary.md").read_text()
    changed = page.index(f"| newly stalled | {STALLED} | no effect (6.0.5)")
    assert changed < page.index("## Cells") < page.index(f"### {STALLED}: not as expected")
    case = ElementTree.parse(place.root / "nightly/junit.xml").find("testsuite/testcase")
    assert case is not None
    assert case.find("failure") is not None
    assert "not as expected" in str(case.findtext("system-out"))


def test_a_cell_that_is_killed_in_the_middle_leaves_nothing_and_the_rest_goes_on(place: Place) -> None:
    (place.root / "p.yml").write_text(LONG)
    process = place.start("nightly", "p.yml")
    os.kill(in_the_hold(place, process), signal.SIGKILL)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == exits.UNKNOWN, out + err
    assert said_of(place) == [
        ("embedded/long/fail-point/pymongo", "unknown", "its process was killed by SIGKILL"),
        ("embedded/short/swallow/pymongo", "as expected", None),
    ]
    assert place.left_after(1.0) == []


def test_a_cell_past_its_time_is_ended_and_healed_and_past_the_nights_time_none_is_begun(place: Place) -> None:
    (place.root / "p.yml").write_text(LONG.replace("{cell: 100s}", "{cell: 8s, all: 8s}"))
    done = place.run("nightly", "p.yml", deadline=DEADLINE)
    assert done.returncode == exits.UNKNOWN, done.stdout + done.stderr
    assert said_of(place) == [
        ("embedded/long/fail-point/pymongo", "unknown", "not done within 8 s, and ended"),
        ("embedded/short/swallow/pymongo", "not run", "the 8 s of the night were over"),
    ]
    assert results(place)["cells"][0]["exit_code"] == exits.INTERRUPTED
    assert place.left_after(1.0) == []


def test_ctrl_c_ends_the_cell_under_way_and_what_is_known_is_written(place: Place) -> None:
    (place.root / "p.yml").write_text(LONG)
    process = place.start("nightly", "p.yml")
    in_the_hold(place, process)
    os.killpg(process.pid, signal.SIGINT)
    _out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == exits.INTERRUPTED, err
    assert results(place)["interrupted"] is True
    assert said_of(place) == [
        ("embedded/long/fail-point/pymongo", "unknown", "interrupted"),
        ("embedded/short/swallow/pymongo", "not run", "the night was interrupted"),
    ]
    assert place.left_after(1.0) == []


def test_a_night_that_is_killed_takes_its_cell_with_it(place: Place) -> None:
    (place.root / "p.yml").write_text(LONG)
    process = place.start("nightly", "p.yml")
    in_the_hold(place, process)
    process.kill()
    process.communicate()
    assert place.left_after() == []
