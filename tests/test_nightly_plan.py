"""A plan of a night: what it comes to in cells, and one line about what is wrong in it, with the file's line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusters.errors import Refused
from harness import cli, exits
from harness.nightly.cells import cells
from harness.nightly.plan import parse
from harness.nightly.servers import server

CHECKED_IN = Path(__file__).parent.parent / ".github/nightly.yml"

PLAN = """\
versions: [embedded, 6.0.24]
scenarios:
  - update-lookup-stall
  - name: update-lookup-stall
    as: calm
    parameters: {streams: 2, traffic: no, driver-option: [maxPoolSize=5, retryReads=false]}
    faults: [none]
  - chaos
faults:
  - freeze
  - {name: pause-replication, options: [how=fsyncLock]}
  - {name: fail-command, as: broken, options: [commands=aggregate, errorCode=6]}
drivers: [pymongo]
expect:
  "*/broken/*": [error surfaced]
  "6.0.24/*/broken/*": [stalled, mixed]
limits: {cell: 90s, all: 14m}
seed: 7
"""


def test_the_cells_are_versions_by_scenarios_by_faults_by_drivers_in_this_order() -> None:
    names = [cell.name for cell in cells(parse(PLAN, "p.yml"), "p.yml")]
    of_one = [
        "update-lookup-stall/freeze/pymongo",
        "update-lookup-stall/pause-replication,how=fsyncLock/pymongo",
        "update-lookup-stall/broken/pymongo",
        "calm/none/pymongo",
        "chaos/-/pymongo",
    ]
    assert names == [f"{version}/{one}" for version in ("embedded", "6.0.24") for one in of_one]


def test_a_cell_has_the_options_that_one_would_type() -> None:
    calm = next(cell for cell in cells(parse(PLAN, "p.yml"), "p.yml") if "calm" in cell.name)
    assert " ".join(calm.options) == (
        "--streams 2 --no-traffic --driver-option maxPoolSize=5 --driver-option retryReads=false --seed 7 --fault none "
        "--driver pymongo"
    )
    assert calm.limit == 90


def test_of_the_expectations_that_fit_a_cell_the_last_one_holds() -> None:
    broken = [cell.options for cell in cells(parse(PLAN, "p.yml"), "p.yml", only=["*/broken/*"])]
    assert [one[one.index("--expect") :] for one in broken] == [
        ("--expect", "error surfaced"),
        ("--expect", "stalled", "--expect", "mixed"),
    ]


def test_only_takes_names_and_patterns_and_versions_take_the_place_of_the_plans() -> None:
    plan = parse(PLAN, "p.yml")
    assert [one.name for one in cells(plan, "p.yml", only=["6.0.24/chaos/-/pymongo", "embedded/calm/*"])] == [
        "embedded/calm/none/pymongo",
        "6.0.24/chaos/-/pymongo",
    ]
    assert {one.version for one in cells(plan, "p.yml", versions=["mongo:8.0"])} == {"mongo:8.0"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("versions: [embedded, 6.0.24]", "", "p.yml:2: versions is missing"),
        ("  - chaos", "  - {}", "p.yml:8: scenarios[2].name is missing"),
        (
            "    as: calm",
            "    es: calm",
            "p.yml:5: scenarios[1].es: unknown key; expected one of name, as, parameters,",
        ),
        ("limits: {cell:", "limits: {call:", "p.yml:17: limits.call: unknown key; expected one of cell, all"),
        (
            "cell: 90s",
            "cell: soon",
            "p.yml:17: limits.cell: expected a duration such as 12s, 500ms or 2m, found 'soon'",
        ),
        ("as: broken,", "ass: broken,", "p.yml:12: faults[2].ass: unknown key; expected one of name, options, as"),
        ("seed: 7", "seeds: 7", "p.yml:18: seeds: unknown key; expected one of versions,"),
        ("seed: 7", "seed: 7\nseed: 8", "p.yml:19: seed: the key is there twice"),
        ("6.0.24]", "7.0]", "p.yml:1: versions[1]: input should be a valid string, found '7.0'"),
        ("6.0.24]", "6.0.24", "the plan p.yml: expected YAML; while parsing"),
        (PLAN, "- embedded", "the plan p.yml: expected versions, scenarios and more, found"),
        ("  - chaos", "  - earthquake", "unknown scenario 'earthquake'; expected update-lookup-stall, chaos,"),
        ("  - freeze", "  - quake", "embedded/update-lookup-stall/quake/pymongo: unknown fault 'quake'"),
        ("streams: 2", "streams: 0", "embedded/calm/none/pymongo: --streams 0: input should be greater than"),
        ("streams: 2", "streamz: 2", "embedded/calm/none/pymongo: unknown parameter 'streamz'; expected cluster,"),
        ("streams: 2", "fault: cut", "fault is no parameter here: faults are the plan's 'faults', or the scenario's"),
        (
            "streams: 2",
            "server-version: 6.0.5",
            "server-version is no parameter here: servers are the plan's 'versions'",
        ),
        ("streams: 2", "provider: auto", "provider is no parameter here: what the plan's 'versions' say brings"),
        ("  - chaos", "  - {name: chaos, faults: [cut]}", "chaos has no parameter 'fault': leave its faults out"),
        ("    as: calm\n", "    as: update-lookup-stall\n", None),
        ("[none]", "[none, none]", "two cells are called embedded/calm/none/pymongo; call one of them otherwise"),
        ("[pymongo]", "[perl]", "--driver perl"),
        ('"*/broken/*"', '"*/brocken/*"', "expect: no cell fits '*/brocken/*'; they are called as embedded/"),
        ("[error surfaced]", "[fireworks]", "--expect fireworks: expected one of stalled"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_place(old: str, new: str, said: str | None) -> None:
    assert old in PLAN

    def come_to() -> None:
        cells(parse(PLAN.replace(old, new, 1), "p.yml"), "p.yml")

    if said is None:
        come_to()
        return
    with pytest.raises(Refused) as caught:
        come_to()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_version_is_one_that_is_installed_a_directory_or_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path))
    assert server("6.0.24").lacking == "6.0.24 is not installed: mongofault binaries install 6.0.24"
    there = tmp_path / "mongod/6.0.24"
    there.mkdir(parents=True)
    (there / "mongod").touch()
    assert (server("6.0.24").options, server("6.0.24").lacking) == (("--server-version", "6.0.24"), None)
    assert server(f"path:{there}").environment == {"MONGODB_BINARIES": str(there)}
    assert server("path:/nowhere").lacking == "path:/nowhere: expected a mongod in it"
    assert server("mongo:8.0").options == ("--provider", "compose", "--image", "mongo:8.0")
    with pytest.raises(Refused, match=r"no mongod 9\.9\.9 can be installed"):
        server("9.9.9")
    for neither in ("7.0", "latest", "mongo", ""):
        with pytest.raises(Refused, match=r"or an image with its tag as mongo:8\.0"):
            server(neither)


@pytest.mark.usefixtures("nothing_given")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.yml"], "the plan absent.yml: No such file"),
        (["p.yml", "--only", "*/cut/*"], "--only */cut/*: no cell fits; they are called as embedded/"),
        (["p.yml", "--versions", "7.0"], "version '7.0': expected a version as 6.0.5"),
        (["p.yml"], "6.0.24 is not installed: mongofault binaries install 6.0.24"),
        (["p.yml", "--versions", "embedded", "--last", "p.yml"], "--last p.yml: expected the results.json of a night"),
        (["p.yml", "--versions", "embedded", "--out", "/proc/none"], "choose another --out"),
        ([], "Missing argument 'PLAN'"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_started(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "p.yml").write_text(PLAN)
    assert cli.run(["nightly", *arguments]) == exits.REFUSED
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "nightly").exists()
    assert not list(tmp_path.glob("state/ledgers/*"))


def test_a_dry_run_lists_the_cells_of_the_plan_that_is_checked_in_and_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert cli.run(["nightly", str(CHECKED_IN), "--dry-run", "--json"]) == exits.AS_EXPECTED
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) >= 3 * 2 * 2
    assert listed[-1]["lacking"].startswith("6.0.27 is not installed")
    assert "mongofault run retry-overlap --server-version 6.0.27" in listed[-1]["command"]
    assert list(tmp_path.iterdir()) == []
