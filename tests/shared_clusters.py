"""Clusters that files of tests share: one worker runs them in a row, and the last of them takes the cluster down.

A member that does nothing takes a hundredth of a core all the same; what every worker kept to its end were fifty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clusters import local
from clusters.local import OwnCluster
from clusters.topology import Topology

NAMES = frozenset(("sharded", "replica_set", "proxied", "nimble"))
"""The fixtures of `conftest` that are such clusters."""

_uses: dict[Path, frozenset[str]] = {}
_up: dict[str, OwnCluster] = {}
_next: Path | None = None


def group(items: list[pytest.Item]) -> None:
    """Files with the same clusters are a group of xdist's (`--dist loadgroup`); any other file is one of its own."""
    uses: dict[Path, set[str]] = defaultdict(set)
    for item in items:
        uses[item.path] |= NAMES.intersection(getattr(item, "fixturenames", ()))
    _uses.update((path, frozenset(names)) for path, names in uses.items())
    for item in items:
        item.add_marker(pytest.mark.xdist_group("+".join(sorted(_uses[item.path])) or item.path.stem))


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
