"""The stand-in router put together from its parts, from listening to closing. Decides nothing by itself."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from clusters import quirks
from clusters.router.catalog import Catalog
from clusters.router.change_stream import ChangeStreams, IdleLimits
from clusters.router.collections import Collections
from clusters.router.counting import Counting
from clusters.router.current_op import CurrentOp
from clusters.router.ddl import Ddl
from clusters.router.dispatch import Dispatch
from clusters.router.explain import Explain
from clusters.router.fail_command import FailCommand
from clusters.router.indexes import Indexes
from clusters.router.listener import Listener
from clusters.router.listings import Listings
from clusters.router.members import Members
from clusters.router.monitor import Monitor
from clusters.router.passing import Passing
from clusters.router.router_host import RouterHost
from clusters.router.server import Client
from clusters.router.sessions import Sessions
from clusters.router.settings import ClusterSettings
from clusters.router.shard_map import ShardMap
from clusters.router.sharding import Sharding
from clusters.router.stats import Stats
from clusters.router.status import Counts, Status
from clusters.router.straight import Straight
from clusters.router.targeted_reads import TargetedReads
from clusters.router.writes import Writes
from clusters.router.zones import Zones
from clusters.wire.pool import Pools
from clusters.wire.proxy.source import ROUTER_APP

log = logging.getLogger("mongofault.router")

REAP_EVERY: Final = 60.0
CLOSE_DEADLINE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`listen` and `router_host` are HOST:PORT, `configdb` is SET/HOST:PORT,..; `seed` fixes the random choices.

    `idle_limits` are of change streams.
    """

    listen: str
    configdb: str
    router_host: str
    seed: int = 0
    idle_limits: IdleLimits = field(default_factory=IdleLimits)
    server_version: str = "6.0.5"


class Router:
    """Serves from `start` to `close`."""

    def __init__(self, settings: Settings) -> None:
        self._clients: set[Client] = set()
        self._counts = Counts()
        self._monitor = Monitor(seed=settings.seed)
        self._internal = Pools(internal=True, app_name=ROUTER_APP)
        self._plain = Pools(app_name=ROUTER_APP)
        server = quirks.of_version(settings.server_version)
        self._host = RouterHost(settings.router_host, cluster_commands=server.cluster_commands)
        members = Members(
            self._monitor, self._internal, self._plain, settings.configdb, snapshot_reads=server.snapshot_reads
        )
        catalog = Catalog(members, server)
        self._passing = Passing(self._host, self._plain)
        reads = self._passing if server.cluster_commands else TargetedReads(members, catalog, self._passing)
        writes = Writes(members, catalog)

        async def is_sharded(namespace: str) -> bool:
            return await catalog.table(namespace) is not None

        self._streams = ChangeStreams(
            self._monitor, self._internal, members.shards, is_sharded, settings.idle_limits, server
        )
        self._straight = Straight(self._host, self._passing)
        self._dispatch = Dispatch(
            members,
            reads,
            self._straight,
            writes,
            self._streams,
            Counting(members, catalog, self._host),
            Ddl(members, catalog, self._host, server),
            Sharding(members, catalog, server),
            Zones(members),
            Indexes(members, catalog, server),
            Collections(members, catalog),
            Stats(members, catalog),
            ShardMap(members, catalog),
            ClusterSettings(members, catalog),
            Sessions(members, self._passing, self._clients),
            Explain(members, catalog, self._host),
            Listings(members, catalog, self._passing, self._host),
            CurrentOp(members, self._host, self._clients, self._streams.table, settings.listen),
            Status(members, self._host, self._counts, self._clients, settings.listen),
            self._counts,
            FailCommand(settings.seed),
            server.wire_version,
        )
        self._listener = Listener(settings.listen, self._clients, self._client)
        self._reaper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises OSError where the address cannot be had."""
        await self._listener.start()
        await self._monitor.start()
        self._reaper = asyncio.create_task(self._reap(), name="reap idle cursors")

    async def close(self) -> None:
        """Stop listening, end what runs, within CLOSE_DEADLINE."""
        assert self._reaper is not None
        self._listener.close()
        self._reaper.cancel()
        tasks = [task for client in list(self._clients) if (task := client.end()) is not None]
        try:
            async with asyncio.timeout(CLOSE_DEADLINE):
                await asyncio.gather(self._reaper, self._straight.close(), *tasks, return_exceptions=True)
                await self._streams.close()
        except TimeoutError:
            log.warning("closed without waiting for members that do not answer")
        await self._monitor.stop()
        self._host.close()
        self._internal.close()
        self._plain.close()

    def _client(self) -> Client:
        self._counts.connections += 1
        return Client(self._dispatch, self._clients)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_EVERY)
            try:
                await self._passing.kill_idle()
            except Exception:
                log.exception("killing idle cursors failed; tried again in %g s", REAP_EVERY)
