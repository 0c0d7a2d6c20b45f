"""Clusters that files of tests share: one worker runs them in a row, and the last of them takes the cluster down.

A member that does nothing takes a hundredth of a core all the same; what every worker kept to its end were fifty.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from clusters import local
from clusters.local import OwnCluster
from clusters.topology import Topology

NAMES = frozenset(("sharded", "replica_set", "proxied", "nimble"))
"""The fixtures of `conftest` that are such clusters."""

_uses: dict[Path, frozenset[str]] = {}
_up: dict[str, OwnCluster] = {}
_next: Path | None = None


class BesideTheirCluster(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types here
    """Files that share the same clusters go to one worker, one after the other; any other file goes by itself.

    The process that distributes tests collects none: what a file asks for is read in its text.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _group(self.config.rootpath / file) or file


@cache
def _group(file: Path) -> str:
    asked = re.findall(r"\b(\w+): \w*Cluster\b", file.read_text())
    return "+".join(sorted(NAMES.intersection(asked)))


def note(items: list[pytest.Item]) -> None:
    """Which file uses which, of all that were collected."""
    uses: dict[Path, set[str]] = defaultdict(set)
    for item in items:
        uses[item.path] |= NAMES.intersection(getattr(item, "fixturenames", ()))
    _uses.update((path, frozenset(names)) for path, names in uses.items())


def next_is(item: pytest.Item | None) -> None:
    """What runs next in this process, known before fixtures are torn down."""
    global _next
    _next = None if item is None else item.path


@asynccontextmanager
async def shared(name: str, topology: Topology, *, proxied: bool = False) -> AsyncIterator[OwnCluster]:
    """The body of such a fixture, whose scope is a module."""
    if name not in _up:
        _up[name] = await local.bring_up(topology, f"tests-{name.replace('_', '-')}", proxied=proxied)
    try:
        yield _up[name]
    finally:
        if _next is None or name not in _uses[_next]:
            await _up.pop(name).down()
