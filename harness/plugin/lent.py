"""What a test has in its hands: a cluster, faults on it, a watch over its streams; in sync and in async tests alike.

Each call that takes its time is made on the background's loop and waited for on the test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, TypeVar

from pymongo import AsyncMongoClient, MongoClient

from clusters.cluster import ServerInfo
from clusters.errors import Refused
from clusters.member import Member
from faults.base import Evidence
from harness.ground import Ground
from harness.histories import History
from harness.injected import injected
from harness.plugin.background import Background, Visit
from harness.plugin.standing import Standing
from harness.stream_watch import ANY, WITHIN, SilentStream, StreamWatch, stream_watch

T = TypeVar("T")
SyncT = TypeVar("SyncT")
AsyncT = TypeVar("AsyncT")


class Cluster:
    """A cluster of the session, lent to a test. Clients are made in the loop, or the thread, of the caller."""

    def __init__(self, standing: Standing, background: Background) -> None:
        self._standing = standing
        self._background = background

    @property
    def name(self) -> str:
        return self.ground.cluster.name

    @property
    def uri(self) -> str:
        """How an application connects."""
        return self.ground.uri

    @property
    def server(self) -> ServerInfo:
        """Its version, its parameters, and who does the routing."""
        return self.ground.server

    @property
    def ground(self) -> Ground:
        """What `mongofault`'s own functions take; they belong on one loop, and faults are for `mongofault_fault`."""
        return self._standing.ground

    @property
    def members(self) -> Mapping[str, Member]:
        """Every member by name, `shard0-1` or `rs0-2`."""
        return self.ground.members

    async def recovered(self, history: History) -> None:
        """On the background's loop; see `Standing.recovered`."""
        await self._standing.recovered(history)

    def names(self, spec: str, *, seed: int = 0) -> list[str]:
        """The names of the nodes that a node spec such as `secondary` means now."""
        found = self._background.run(self.ground.select(spec, seed=seed).members())
        return [one.name for one in found]

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        """An async driver: `async with mongofault_cluster.client() as client`."""
        return self.ground.client(**options)

    def sync_client(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """A synchronous one: `with mongofault_cluster.sync_client() as client`."""
        return MongoClient(self.uri, **options)


class Block(Generic[T, SyncT, AsyncT]):
    """A block, for `with` and for `async with`; what it gives is suited to the one or the other."""

    def __init__(
        self,
        background: Background,
        manager: Callable[[], AbstractAsyncContextManager[T]],
        for_sync: Callable[[T], SyncT],
        for_async: Callable[[T], AsyncT],
    ) -> None:
        self._background, self._manager = background, manager
        self._for_sync, self._for_async = for_sync, for_async
        self._visit: Visit[T] | None = None

    def __enter__(self) -> SyncT:
        return self._for_sync(self._background.run(self._enter()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._background.run(self.leave())

    async def __aenter__(self) -> AsyncT:
        return self._for_async(await self._background.arun(self._enter()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._background.arun(self.leave())

    async def leave(self) -> None:
        """On the background's loop; a second call does nothing."""
        visit, self._visit = self._visit, None
        if visit is not None:
            await visit.leave()

    async def _enter(self) -> T:
        self._visit = Visit(self._manager())
        return await self._visit.enter()


class Blocks:
    """What is done to the clusters of one test, and recorded in its history. `blocks` are those that it made."""

    def __init__(
        self, background: Background, history: History, clusters: Sequence[Cluster], seen: Callable[[Cluster], None]
    ) -> None:
        self._background, self._history, self._clusters, self._seen = background, history, clusters, seen
        self.blocks: list[Block[Any, Any, Any]] = []

    def _where(self, cluster: Cluster | None) -> Cluster:
        """The one that is named, or the only one; it is used from now on. Raises Refused."""
        if cluster is None and len(self._clusters) > 1:
            raise Refused("the test uses several clusters: say which is meant by cluster=..")
        where = cluster or self._clusters[0]
        self._seen(where)
        return where

    def _recorded(self, where: Cluster) -> Ground:
        return replace(where.ground, history=self._history)


class Faults(Blocks):
    """`mongofault_fault`: a fault acts within a block, proven at its beginning and healed at its end."""

    def __call__(
        self,
        fault: str,
        on: str,
        *,
        cluster: Cluster | None = None,
        watched: str | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> Block[list[Evidence], list[Evidence], list[Evidence]]:
        """`with mongofault_fault("freeze", on="secondary") as proofs`, or `async with`; a proof for each node.

        `on` a node spec; `cluster` the one that the test uses, where it uses one; `watched` DATABASE.COLLECTION, for
        faults that strike one namespace alone; `options` of the fault, by name. Entering raises Refused where nothing
        was broken and Unproven where it could not be proven; leaving HealFailed.
        """
        where = self._where(cluster)

        def manager() -> AbstractAsyncContextManager[list[Evidence]]:
            where._standing.broken = True
            return injected(self._recorded(where), fault, on, options=options or {}, namespace=watched, seed=seed)

        block: Block[list[Evidence], list[Evidence], list[Evidence]]
        block = Block(self._background, manager, lambda proofs: proofs, lambda proofs: proofs)
        self.blocks.append(block)
        return block


class SyncWatch:
    """What `with mongofault_stream_watch()` gives; see `harness.stream_watch.StreamWatch`."""

    def __init__(self, watch: StreamWatch, background: Background) -> None:
        self._watch, self._background = watch, background

    def silent(self) -> list[SilentStream]:
        """The streams that get no answer now."""
        return self._background.run(_now(self._watch.silent))

    def seen(self) -> list[SilentStream]:
        """All that got none at some time since the block began."""
        return self._background.run(_now(self._watch.seen))

    def until_watched(self, *streams: str, within: float = WITHIN) -> None:
        """Returns when a getMore of each of these was seen. Raises StreamsNotSo after `within` seconds."""
        self._background.run(self._watch.until_watched(*streams, within=within))

    def until_silent(self, count: int = 1, *, within: float = WITHIN) -> list[SilentStream]:
        """Those that are silent, as soon as `count` are. Raises StreamsNotSo after `within` seconds."""
        return self._background.run(self._watch.until_silent(count, within=within))

    def until_none_silent(self, *, within: float = WITHIN) -> None:
        """Returns when none is silent. Raises StreamsNotSo after `within` seconds."""
        self._background.run(self._watch.until_none_silent(within=within))


class AsyncWatch:
    """What `async with mongofault_stream_watch()` gives: the same, to be awaited."""

    def __init__(self, watch: StreamWatch, background: Background) -> None:
        self._watch, self._background = watch, background

    async def silent(self) -> list[SilentStream]:
        return await self._background.arun(_now(self._watch.silent))

    async def seen(self) -> list[SilentStream]:
        return await self._background.arun(_now(self._watch.seen))

    async def until_watched(self, *streams: str, within: float = WITHIN) -> None:
        await self._background.arun(self._watch.until_watched(*streams, within=within))

    async def until_silent(self, count: int = 1, *, within: float = WITHIN) -> list[SilentStream]:
        return await self._background.arun(self._watch.until_silent(count, within=within))

    async def until_none_silent(self, *, within: float = WITHIN) -> None:
        await self._background.arun(self._watch.until_none_silent(within=within))


class StreamWatches(Blocks):
    """`mongofault_stream_watch`: all change streams on the cluster are watched within a block."""

    def __call__(
        self, namespace: str = ANY, *, cluster: Cluster | None = None
    ) -> Block[StreamWatch, SyncWatch, AsyncWatch]:
        """`with mongofault_stream_watch() as watch`, or `async with`; `namespace` the streams' DATABASE.COLLECTION."""
        where = self._where(cluster)
        background = self._background
        block = Block(
            background,
            lambda: stream_watch(self._recorded(where), namespace),
            lambda watch: SyncWatch(watch, background),
            lambda watch: AsyncWatch(watch, background),
        )
        self.blocks.append(block)
        return block


async def _now(ask: Callable[[], T]) -> T:
    return ask()
