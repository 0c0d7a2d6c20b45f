"""Upstream's `ShardingTest` (jstests/libs/shardingtest.js): a sharded cluster by the names it has there.

`async with ShardingTest(shards=2, nodes=3) as st`; the router is a mongos where one is found, else the stand-in.
`new_shard` is a set that may become one more of its shards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection

from clusters import local, ports
from clusters.local import OwnCluster
from clusters.topology import Role, Settings, Topology, replica_set, sharded_cluster
from harness import stage
from jstests_port.mongo import Document, Mongo
from jstests_port.repl_set_test import ReplSetTest, as_upstream
from jstests_port.routers import another_router


class ShardingTest:
    """`shards` shards of `nodes` members, a router or two, a config server.

    `settings` are those of every member (`clusters.topology.Settings`); `parameters` are setParameter values of single
    members, by name (`shard0-0`). `more`: what `clusters.local.bring_up` takes besides (`proxied`).
    """

    s: Mongo
    """The router, which is `routers[0]` too."""
    routers: list[Mongo]
    rs: list[ReplSetTest]
    """The shards, in their order."""
    config_rs: ReplSetTest
    cluster: OwnCluster

    def __init__(
        self,
        shards: int = 2,
        nodes: int = 1,
        *,
        routers: int = 1,
        settings: Settings | None = None,
        parameters: Mapping[str, Mapping[str, str]] | None = None,
        name: str = "jstests",
        **more: Any,
    ) -> None:
        topology = as_upstream(sharded_cluster(shards, nodes, settings=settings))
        for member, values in (parameters or {}).items():
            topology = topology.with_member(member, parameters=values)
        self._topology, self._name, self._more, self._routers = topology, name, more, routers

    async def __aenter__(self) -> ShardingTest:
        self.cluster = await local.bring_up(self._topology, self._name, **self._more)
        assert self.cluster.router is not None and self.cluster.topology.config is not None
        self.s = Mongo(self.cluster.router, name="router")
        self.routers = [self.s]
        self.rs = [ReplSetTest(self.cluster, one.name) for one in self.cluster.topology.shards]
        self.config_rs = ReplSetTest(self.cluster, self.cluster.topology.config.name)
        try:
            for number in range(1, self._routers):
                name = f"router{number}"
                self.routers.append(Mongo((await another_router(self.cluster, name)).host, name=name))
        except BaseException:
            await self._down()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._down()

    async def _down(self) -> None:
        for router in self.routers:
            await router.close()
        for one in (*self.rs, self.config_rs):
            await one.close()
        await self.cluster.down()
        ports.give_back(int(one.host.rpartition(":")[2]) for one in self.routers[1:])

    @property
    def s1(self) -> Mongo:
        """The second router of `routers=2`."""
        return self.routers[1]

    @property
    def rs0(self) -> ReplSetTest:
        return self.rs[0]

    @property
    def rs1(self) -> ReplSetTest:
        return self.rs[1]

    @property
    def rs2(self) -> ReplSetTest:
        return self.rs[2]

    @property
    def shard0(self) -> Mongo:
        """The first node of the first shard, its primary unless somebody was stepped up."""
        return self.rs0.nodes[0]

    @property
    def shard1(self) -> Mongo:
        return self.rs1.nodes[0]

    @property
    def shard2(self) -> Mongo:
        return self.rs2.nodes[0]

    async def enable_sharding(self, database: str, primary_shard: str) -> None:
        await self.s.admin.command("enableSharding", database, primaryShard=primary_shard)

    async def get_primary_shard(self, database: str) -> str:
        """The name of the shard that has what is not sharded. Raises LookupError where there is no such database."""
        found = await self.s.config.databases.find_one({"_id": database})
        if found is None:
            raise LookupError(f"no database {database} in config.databases")
        primary: str = found["primary"]
        return primary

    def get_other(self, shard: str) -> str:
        """The name of another shard."""
        return next(one.name for one in self.rs if one.name != shard)

    async def shard_coll(
        self,
        collection: AsyncCollection[Document],
        key: Document,
        split: Document | None = None,
        move: Document | None = None,
        *,
        to: str | None = None,
        wait_for_delete: bool = False,
    ) -> None:
        """Shard it by `key`, split it at `split`, and move the chunk that has `move` away from the database's primary
        shard, to the next one. As upstream has it, `split` is `key` and `move` is `split` where they are not given.

        A database that is not there yet is made on shard0.
        """
        database, namespace = collection.database.name, collection.full_name
        if await self.s.config.databases.find_one({"_id": database}) is None:
            await self.enable_sharding(database, self.rs0.name)
        await self.s.admin.command("shardCollection", namespace, key=key)
        split = split or key
        await self.s.admin.command("split", namespace, middle=split)
        await self.move_chunk(
            collection,
            move or split,
            to or self.get_other(await self.get_primary_shard(database)),
            wait_for_delete=wait_for_delete,
        )

    async def move_chunk(
        self, collection: AsyncCollection[Document], find: Document, to: str, *, wait_for_delete: bool = False
    ) -> None:
        """Move the chunk that has `find` to the shard of that name."""
        await self.s.admin.command("moveChunk", collection.full_name, find=find, to=to, _waitForDelete=wait_for_delete)

    async def wait_until_stable(self) -> None:
        """Every set has a primary and secondaries that caught up, and the members' monitors know each other."""
        await stage.recovered(self.cluster)


@asynccontextmanager
async def new_shard(name: str = "newShard") -> AsyncIterator[ReplSetTest]:
    """A set of one member that is no shard yet: `addShard` with its `get_url()`. End the cluster before it."""
    topology = as_upstream(Topology(shards=(replica_set(name, Role.SHARD, 1),)))
    cluster = await local.bring_up(topology, f"jstests-{name}")
    rst = ReplSetTest(cluster, name)
    try:
        # With which bring-up proved it Ready; a new shard must have no data.
        await rst.nodes[0].drop_database("mongofault")
        yield rst
    finally:
        await rst.close()
        await cluster.down()
