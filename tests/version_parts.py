"""Server versions for tests: installed once, into a cache that the rounds of this repository share."""

from __future__ import annotations

from pathlib import Path

import pytest

from aftermath import Place
from harness import exits

CACHE = Path(__file__).parent.parent / ".cache" / "mongofault"
INSTALL_DEADLINE = 170
"""Seconds for one version over a slow line; two seconds on a fast one."""


def installed(patch: pytest.MonkeyPatch, place: Place, version: str) -> None:
    """See to it that the version is there, for this process and those it starts."""
    patch.setenv("MONGOFAULT_CACHE", str(CACHE))
    done = place.run("binaries", "install", version, deadline=INSTALL_DEADLINE)
    assert done.returncode == exits.AS_EXPECTED, done.stderr
