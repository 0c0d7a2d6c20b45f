"""Where installed servers lie: a directory for each version in the user's cache, there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from clusters.releases.catalogue import Release, released


def cache_root() -> Path:
    """MONGOFAULT_CACHE, else the user's cache directory (XDG Base Directory Specification)."""
    if own := os.environ.get("MONGOFAULT_CACHE"):
        return Path(own).absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).absolute() / "mongofault"
    return Path.home() / ".cache/mongofault"


def directory_of(release: Release) -> Path:
    """Where its mongod lies once it is installed; a value for MONGODB_BINARIES."""
    return cache_root() / "mongod" / release.version


def installed(version: str) -> Path | None:
    """The directory that holds the mongod of this version, None where it is not installed.

    Raises Refused for a version that cannot be.
    """
    directory = directory_of(released(version))
    return directory if (directory / "mongod").is_file() else None
