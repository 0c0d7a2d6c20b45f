"""What the tests of the router's streams share: a sharded collection, its events, the streams without a server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from clusters import admin
from clusters.cluster import data_members, of_set, primary_of
from clusters.local import LocalCluster
from clusters.member import Member
from clusters.router.change_stream import ChangeStreams, IdleLimits
from clusters.router.monitor import Monitor
from clusters.wire.connection import Connection
from clusters.wire.pool import Pools

DATABASE = "streams"
DEADLINE = 30.0
_names = itertools.count(1)

Document = dict[str, Any]


@dataclass
class Orders:
    """A collection sharded on `region`, -1 on one shard and 1 on the other; `n` says in which order it was written."""

    cluster: LocalCluster
    client: AsyncMongoClient[Document]
    name: str

    @property
    def collection(self) -> Any:
        return self.client[DATABASE].get_collection(self.name, write_concern=WriteConcern("majority"))

    @property
    def namespace(self) -> str:
        return f"{DATABASE}.{self.name}"

    async def insert(self, numbers: Sequence[int]) -> None:
        for n in numbers:
            await self.collection.insert_one({"_id": n, "region": n % 2 * 2 - 1, "n": n})

    async def update(self, seq: int) -> None:
        """Documents 0 and 1, one on each shard."""
        for n in (0, 1):
            await self.collection.update_one({"_id": n, "region": n % 2 * 2 - 1}, {"$set": {"seq": seq}}, upsert=True)

    async def spread(self) -> None:
        """Make it: region 0 and above on another shard than the rest, where there is another one."""
        await self.client.admin.command("shardCollection", self.namespace, key={"region": 1})
        await self.move_upper_half()

    async def move_upper_half(self) -> None:
        lower, upper = await self.shards_of_the_halves()
        if upper != lower:
            await self.client.admin.command("moveRange", self.namespace, min={"region": 0}, toShard=upper)

    async def shards_of_the_halves(self) -> tuple[str, str]:
        """Who has the regions below 0, and who the others."""
        database = await self.client.config.databases.find_one({"_id": DATABASE})
        assert database is not None
        others = [one.name for one in self.cluster.topology.shards if one.name != database["primary"]]
        return database["primary"], others[0] if others else database["primary"]


@asynccontextmanager
async def orders_on(cluster: LocalCluster) -> AsyncIterator[Orders]:
    async with cluster.client() as client:
        orders = Orders(cluster, client, f"orders{next(_names)}")
        await orders.spread()
        try:
            yield orders
        finally:
            await orders.collection.drop()


async def watch(collection: Any, pipeline: Sequence[Document] = (), **options: Any) -> Any:
    """A pymongo stream with short awaits: an idle shard, for which the others' events wait, renews its promise then."""
    return await collection.watch(list(pipeline), **{"max_await_time_ms": 100, **options})


async def read(stream: Any, count: int) -> list[Document]:
    """The next `count` events of a pymongo stream."""
    events: list[Document] = []
    async with asyncio.timeout(DEADLINE):
        while len(events) < count:
            event = await stream.try_next()
            assert stream.alive
            if event is not None:
                events.append(event)
    return events


async def until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> None:
    """Poll another process's state; `condition` may be a coroutine function."""

    async def holds() -> bool:
        result = condition()
        return bool(await result if asyncio.iscoroutine(result) else result)

    await admin.until(what, holds, deadline=deadline)


@dataclass
class Room:
    """ChangeStreams with its own monitor and pools, no server in front."""

    streams: ChangeStreams
    monitor: Monitor
    orders: Orders

    async def open(self, options: Mapping[str, Any] | None = None, **fields: Any) -> int:
        command = {
            "aggregate": self.orders.name,
            "pipeline": [{"$changeStream": options or {"fullDocument": "updateLookup"}}],
            "cursor": {},
            "$db": DATABASE,
            **fields,
        }
        return int((await self.streams.open(command))["cursor"]["id"])

    async def get_more(self, cursor_id: int, **fields: Any) -> Document:
        command = {"getMore": cursor_id, "collection": self.orders.name, "$db": DATABASE, **fields}
        cursor: Document = (await self.streams.get_more(command))["cursor"]
        return cursor

    async def read(self, cursor_id: int, count: int, **fields: Any) -> list[Document]:
        events: list[Document] = []
        async with asyncio.timeout(DEADLINE):
            while len(events) < count:
                events += (await self.get_more(cursor_id, **fields))["nextBatch"]
        return events


@asynccontextmanager
async def room(orders: Orders, limits: IdleLimits | None = None) -> AsyncIterator[Room]:
    cluster = orders.cluster
    monitor = Monitor(seed=0)
    await monitor.start()
    for shard in cluster.topology.shards:
        monitor.watch_set(shard.name, [of_set(cluster, shard.name)[0].host])

    async def shards() -> Mapping[str, str]:
        return {one.name: one.name for one in cluster.topology.shards}

    pools = Pools(internal=True)

    async def is_sharded(_namespace: str) -> bool:
        return True

    streams = ChangeStreams(monitor, pools, shards, is_sharded, limits or IdleLimits())
    try:
        yield Room(streams, monitor, orders)
    finally:
        await streams.close()
        await monitor.stop()
        pools.close()


@asynccontextmanager
async def tagged(cluster: LocalCluster) -> AsyncIterator[Moves]:
    """Tag `lookups` on one secondary of each shard, for as long as this lasts."""
    bearers: dict[str, Member] = {}

    async def tag(set_name: str) -> None:
        primary = await primary_of(cluster, set_name)
        bearers[set_name] = next(one for one in of_set(cluster, set_name) if one is not primary)
        await _tag(cluster, set_name, bearers[set_name])

    names = [shard.name for shard in cluster.topology.shards]
    await asyncio.gather(*(tag(name) for name in names))
    try:
        yield Moves(cluster, bearers)
    finally:
        await asyncio.gather(*(_tag(cluster, name, None) for name in names))


async def _tag(cluster: LocalCluster, set_name: str, member: Member | None) -> None:
    connection = await Connection.open((await primary_of(cluster, set_name)).host, deadline=DEADLINE)
    try:
        await admin.move_tags(
            connection,
            {one.host: {"lookups": "here"} if one is member else {} for one in of_set(cluster, set_name)},
        )
    finally:
        connection.close()


TAGS = [{"lookups": "here"}]
PINNED = {"mode": "secondary", "tags": TAGS}


@dataclass
class Moves:
    """`bearers` has, per shard, the secondary that bears the tag."""

    cluster: LocalCluster
    bearers: dict[str, Member]

    async def move(self, set_name: str) -> tuple[Member, Member]:
        """From A to B, and A has heard of it: a lookup by A now goes to B. Gives (A, B).

        A must have looked something up before: it watches its own set from then on (measured: else up to 25 s later).
        """
        a = self.bearers[set_name]
        primary = await primary_of(self.cluster, set_name)
        b = next(one for one in of_set(self.cluster, set_name) if one not in (a, primary))
        await _tag(self.cluster, set_name, b)
        self.bearers[set_name] = b
        async with a.client() as client:

            async def heard() -> bool:
                stats = await client.admin.command("connPoolStats")
                known = {one["addr"]: one for one in stats["replicaSets"].get(set_name, {}).get("hosts", ())}
                return "lookups" in known.get(b.host, {}).get("tags", {}) and not known[a.host].get("tags")

            await until(heard, f"{a.host} knows that {b.host} bears the tag")
        return a, b


async def cursors_of(cluster: LocalCluster, run: str) -> list[tuple[Member, bool, Any]]:
    """Cursors on the members whose aggregate's comment names this run: (member, whether secondary, comment)."""
    found = []
    for member in data_members(cluster):
        if not member.running():
            continue
        async with member.client() as client:
            hello = await client.admin.command("hello")
            operations = await client.admin.aggregate(
                [
                    {"$currentOp": {"allUsers": True, "idleCursors": True}},
                    {"$match": {"cursor.originatingCommand.comment.run": run}},
                ]
            )
            async for one in operations:
                found.append((member, hello["secondary"], one["cursor"]["originatingCommand"]["comment"]))
    return found
