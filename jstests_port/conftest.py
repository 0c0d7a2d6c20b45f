"""Clusters that the tests share, one of each kind for the whole session; every test finds no database in them.

A cluster on which a test failed is replaced, so that the next one does not stumble over what it left.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pymongo import AsyncMongoClient

from jstests_port import servers
from jstests_port.mongo import Document
from jstests_port.repl_set_test import ReplSetTest, repl_set_test
from jstests_port.sharding_test import ShardingTest

HERE = Path(__file__).parent
SYSTEM = ("admin", "config", "local")
_failed = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.jstests)
            item.add_marker(pytest.mark.live)


def pytest_runtest_setup(item: pytest.Item) -> None:
    lacking: list[str | None] = [
        servers.lacks_version(*marker.args, **marker.kwargs) for marker in item.iter_markers("needs_server")
    ]
    if item.get_closest_marker("needs_mongos"):
        lacking.append(servers.lacks_mongos())
    for one in lacking:
        if one is not None:
            pytest.skip(one)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.fixture(scope="session", autouse=True)
def own_state() -> Iterator[Path]:
    """The suite's ledgers lie apart from the user's; `mongofault heal` of the user never sees them."""
    with tempfile.TemporaryDirectory(prefix="mongofault-jstests-") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MONGOFAULT_STATE", directory)
        yield Path(directory)


class Shared:
    """The clusters that are up, by kind."""

    def __init__(self) -> None:
        self._up: dict[str, tuple[ShardingTest | ReplSetTest, AsyncExitStack]] = {}

    async def sharded(self, kind: str, shards: int, nodes: int) -> ShardingTest:
        if kind not in self._up:
            stack = AsyncExitStack()
            st = await stack.enter_async_context(ShardingTest(shards, nodes, name=f"jstests-{kind}"))
            self._up[kind] = (st, stack)
        found = self._up[kind][0]
        assert isinstance(found, ShardingTest)
        return found

    async def set_of(self, kind: str, nodes: int) -> ReplSetTest:
        if kind not in self._up:
            stack = AsyncExitStack()
            rst = await stack.enter_async_context(repl_set_test(nodes, name=f"jstests-{kind}"))
            self._up[kind] = (rst, stack)
        found = self._up[kind][0]
        assert isinstance(found, ReplSetTest)
        return found

    async def drop(self, kind: str) -> None:
        _, stack = self._up.pop(kind)
        await stack.aclose()

    async def close(self) -> None:
        for kind in list(self._up):
            await self.drop(kind)


@pytest.fixture(scope="session")
async def shared(own_state: Path) -> AsyncIterator[Shared]:
    clusters = Shared()
    try:
        yield clusters
    finally:
        await clusters.close()


@pytest.fixture
async def st(shared: Shared, request: pytest.FixtureRequest) -> AsyncIterator[ShardingTest]:
    """Three shards of one node."""
    st = await shared.sharded("small", 3, 1)
    yield st
    await _tidy(shared, "small", st.s, request)


@pytest.fixture
async def replicated(shared: Shared, request: pytest.FixtureRequest) -> AsyncIterator[ShardingTest]:
    """Two shards of three nodes."""
    st = await shared.sharded("replicated", 2, 3)
    yield st
    await _tidy(shared, "replicated", st.s, request)


@pytest.fixture
async def rst(shared: Shared, request: pytest.FixtureRequest) -> AsyncIterator[ReplSetTest]:
    """A plain replica set of three nodes."""
    rst = await shared.set_of("set", 3)
    yield rst
    async with AsyncMongoClient[Document](rst.cluster.uri) as client:
        await _tidy(shared, "set", client, request)


async def _tidy(shared: Shared, kind: str, client: AsyncMongoClient[Document], request: pytest.FixtureRequest) -> None:
    """Databases go, or the whole cluster where the test failed."""
    if request.node.stash.get(_failed, False):
        await shared.drop(kind)
        return
    for name in await client.list_database_names():
        if name not in SYSTEM:
            await client.drop_database(name)


@pytest.fixture
def test_name(request: pytest.FixtureRequest) -> str:
    """Upstream's `jsTestName()`: the name of the file without `test_`, short enough for a database."""
    return str(request.path.stem).removeprefix("test_")[:50]
