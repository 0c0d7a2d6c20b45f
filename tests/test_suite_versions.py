"""Server versions beside each other: who looks up, what is expected of that, how it is told, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.binaries import Binary
from clusters.cluster import RouterKind, ServerInfo
from harness import cli, exits
from harness.history import Event
from harness.lookups import NOT_ROUTED, ROUTED_BY_SHARD, lookup_path
from harness.report.versions import COLUMNS, cells, page
from harness.scenarios.parameters import build
from harness.scenarios.update_lookup_stall import StallParameters, UpdateLookupStall
from harness.suites.versions import Compared, Row, row


@pytest.mark.parametrize(
    ("version", "router", "expected"),
    [
        ("4.4.2", "stand-in", NOT_ROUTED),
        ("5.0.4", "stand-in", NOT_ROUTED),
        ("6.0.5", "stand-in", ROUTED_BY_SHARD),
        ("6.0.5", "mongos", "routed by the mongos"),
        ("8.0.4", "mongos", ROUTED_BY_SHARD),
        ("5.0.4", "mongos", "routed by the mongos"),
        ("6.0.5", "none", "local: a plain replica set"),
    ],
)
def test_who_looks_up_is_said_by_version_and_router(version: str, router: str, expected: str) -> None:
    assert lookup_path(version, router) == expected


@pytest.mark.parametrize(
    ("version", "router", "options", "expected"),
    [
        ("5.0.4", "stand-in", {}, {"no effect"}),
        ("6.0.27", "stand-in", {}, {"stalled"}),
        ("5.0.4", "mongos", {}, {"stalled"}),
        ("5.0.4", "stand-in", {"fault": "none"}, {"no effect"}),
        ("4.4.2", "stand-in", {"target": "secondary"}, set()),
    ],
)
def test_what_is_expected_is_so_of_that_version_and_lookup_path(
    version: str, router: RouterKind, options: dict[str, str], expected: set[str]
) -> None:
    scenario = UpdateLookupStall(build(StallParameters, options))
    server = ServerInfo(version, "", router)
    assert scenario.expected(server) == expected
    if expected == set():
        assert not scenario.selects_by_latency(server)


def test_images_count_that_came_while_the_fault_was_held() -> None:
    def delivered(op: str, image: bool) -> Event:
        return Event(0, 0.0, "streams", "stream.event", {"op": op, "image": image})

    def phase(name: str) -> Event:
        return Event(0, 0.0, "run", "phase", {"name": name})

    update = delivered("update", True)
    events = [
        phase("load"),
        update,
        phase("hold"),
        update,
        delivered("update", False),
        update,
        phase("release"),
        update,
    ]
    document = {
        "server": {"version": "4.4.2", "git_version": "g", "router": "stand-in", "lookup": NOT_ROUTED},
        "outcome": "no effect",
        "counts": {"no effect": 2},
        "streams": [{}, {"getmore": {"seconds": 4.5}}],
        "verdict": "as expected",
    }
    found = row(document, "as expected: no effect", 0, events)
    assert (found.images, found.streams, found.longest_getmore) == (2, 2, 4.5)


def test_the_page_has_a_row_for_each_version_in_these_words() -> None:
    old = Row("4.4.2", "a" * 40, "stand-in", NOT_ROUTED, "no effect", 8, None, 1900, "as expected", "as expected: x", 0)
    new = Row(
        "6.0.5", "b" * 40, "stand-in", ROUTED_BY_SHARD, "stalled", 8, 11.5, 30, "as expected", "as expected: y", 0
    )
    text = page(Compared([old, new], {"hold": "5s"}))
    words = "no shard-side routed lookup; its mongos not tested"
    assert f"| 4.4.2 | stand-in | {words} | 8 no effect |  | 1900 | as expected |" in text
    assert "| 6.0.5 | stand-in | routed by the shard | 8 stalled | 11.5 s | 30 | as expected |" in text
    assert "Options: `--hold 5s`" in text
    assert len(cells(old)) == len(COLUMNS)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((0, 0), exits.AS_EXPECTED), ((0, 2), exits.UNKNOWN), ((2, 1, 0), exits.NOT_AS_EXPECTED)],
)
def test_the_weightiest_verdict_is_the_tables(codes: tuple[int, ...], expected: int) -> None:
    rows = [Row("6.0.5", "", "", "", "", 0, None, 0, "", "", code) for code in codes]
    assert Compared(rows, {}).exit_code == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--suite", "version"], "--suite version: expected versions"),
        (["--version", "5.0.4"], "--findings and --version are the suite's"),
        (["--suite", "versions", "--version", "5.0.4"], "say with --findings where their table goes"),
        (["--suite", "versions", "--cluster", "x"], "clusters of its own, of each version: leave out --cluster"),
        (["--suite", "versions", "--server-version", "5.0.4"], "leave out --server-version"),
        (["--suite", "versions", "--version", "5", "--findings", "f.md"], "no mongod 5 can be installed"),
        (["--suite", "versions", "--version", "4.4.2", "--findings", "f.md"], "mongofault binaries install 4.4.2"),
    ],
)
def test_what_the_suite_cannot_do_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    reason: str,
) -> None:
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert cli.run(["run", "update-lookup-stall", *options]) == exits.REFUSED
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_behind_the_script_in_the_cache_lies_the_server_with_its_libraries(tmp_path: Path) -> None:
    for name in ("bin", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/mongod").touch()
    behind = Binary(tmp_path / "mongod", "4.4.2", "", "cache")
    assert (behind.executable, behind.library_path) == (tmp_path / "bin/mongod", tmp_path / "lib")
    itself = Binary(tmp_path / "bin/mongod", "4.4.2", "", "PATH")
    assert (itself.executable, itself.library_path) == (tmp_path / "bin/mongod", None)
