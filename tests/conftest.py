"""Clusters that tests share: one of each kind for the whole session, on state directories of their own."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import crash_matrix
import shared_clusters
from clusters.binaries import find_mongod, find_mongos
from clusters.compose import command, engine
from clusters.compose import image as images
from clusters.errors import Refused
from clusters.local import OwnCluster
from clusters.topology import Settings, sharded_cluster, single_replica_set
from shared_clusters import shared


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> shared_clusters.BesideTheirCluster:
    return shared_clusters.BesideTheirCluster(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    shared_clusters.note(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    shared_clusters.next_is(nextitem)


@pytest.fixture(scope="session", autouse=True)
def own_state() -> Iterator[Path]:
    """The suite's ledgers lie apart from the user's; `mongofault heal` of the user never sees them."""
    with tempfile.TemporaryDirectory(prefix="mongofault-tests-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONGOFAULT_STATE", directory)
        yield Path(directory)


@pytest.fixture(scope="module")
async def sharded() -> AsyncIterator[OwnCluster]:
    """Two shards of three members behind a router; left healthy by every test that uses it."""
    async with shared("sharded", sharded_cluster(2, 3)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def replica_set() -> AsyncIterator[OwnCluster]:
    """A plain replica set of three members; left healthy by every test that uses it."""
    async with shared("replica_set", single_replica_set(3)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def proxied() -> AsyncIterator[OwnCluster]:
    """One member, and the proxy before it, whose tap counts."""
    async with shared("proxied", single_replica_set(1), proxied=True) as cluster:
        yield cluster


@pytest.fixture
def nothing_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of this test finds no cluster, no URI, no terminal and an empty directory."""
    monkeypatch.setenv("MONGOFAULT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("MONGODB_URI", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
async def nimble() -> AsyncIterator[OwnCluster]:
    """A replica set of three that notices everything at once; its members may be ended, started and reconfigured."""
    settings = Settings(
        heartbeat_ms=200,
        election_timeout_ms=1000,
        # A member told to end tells its clients so for 15 s otherwise.
        parameters={"shutdownTimeoutMillisForSignaledShutdown": "100"},
    )
    async with shared("nimble", single_replica_set(3, settings=settings)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def docker_image() -> str:
    """An image of the mongod there is, in an engine that answers, with a Compose beside it; built once, and kept.

    Where there is none the test is skipped, unless MONGOFAULT_REQUIRE_DOCKER is set: then it fails.
    """
    try:
        engine.require()
        command.command()
        return images.build(find_mongod(), find_mongos())
    except Refused as error:
        if os.environ.get("MONGOFAULT_REQUIRE_DOCKER"):
            pytest.fail(f"MONGOFAULT_REQUIRE_DOCKER is set, and {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[crash_matrix.Site]:
    """A kept cluster with proxies on which harnesses are killed; taken down without a trace."""
    with crash_matrix.site(tmp_path_factory.mktemp("crash")) as one:
        yield one
