"""Which server a version of a plan means: what the run of a cell is told for it, or why it cannot be had here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clusters import binaries
from clusters.errors import Refused

EMBEDDED: Final = "embedded"
DIRECTORY: Final = "path:"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-\w+)?")
IMAGE: Final = re.compile(r"[a-z0-9][\w./:-]*:[\w.-]+(@sha256:[0-9a-f]{64})?")
FORMS: Final = "a version as 6.0.5, 'embedded', 'path:/directory', or an image with its tag as mongo:8.0"


@dataclass(frozen=True, slots=True)
class Server:
    """What a run is told so that its members are of this version."""

    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    lacking: str | None = None
    """Why there is none here, and what to do."""


def server(version: str) -> Server:
    """Raises Refused where it is no version at all."""
    if version == EMBEDDED:
        return _of(binaries.embedded(), f"{EMBEDDED}: {binaries.advice()}")
    if version.startswith(DIRECTORY):
        directory = Path(version.removeprefix(DIRECTORY)).expanduser().absolute()
        return _of(directory if (directory / "mongod").is_file() else None, f"{version}: expected a mongod in it")
    if VERSION.fullmatch(version):
        there = binaries.where_is(version) is not None
        lacking = None if there else f"{version} is not installed: mongofault binaries install {version}"
        return Server(options=("--server-version", version), lacking=lacking)
    if IMAGE.fullmatch(version):
        return Server(options=("--provider", "compose", "--image", version))
    raise Refused(f"version {version!r}: expected {FORMS}")


def _of(directory: Path | None, lacking: str) -> Server:
    if directory is None:
        return Server(lacking=lacking)
    return Server({"MONGODB_BINARIES": str(directory)})
