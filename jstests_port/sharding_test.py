"""Upstream's `ShardingTest` (jstests/libs/shardingtest.js): a sharded cluster by the names it has there.

`async with ShardingTest(shards=2, nodes=3) as st`; the router is a mongos where one is found, else the stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection

from clusters import local
from clusters.cluster import Own
from clusters.topology import Settings, sharded_cluster
from harness import stage
from jstests_port.mongo import Document, Mongo
from jstests_port.repl_set_test import ReplSetTest, as_upstream


class ShardingTest:
    """`shards` shards of `nodes` members, one router, a config server.

    `settings` are those of every member (`clusters.topology.Settings`); `parameters` are setParameter values of single
    members, by name (`shard0-0`). `more`: what `clusters.local.bring_up` takes besides (`proxied`).
    """

    s: Mongo
    """The router."""
    rs: list[ReplSetTest]
    """The shards, in their order."""
    config_rs: ReplSetTest
    cluster: Own

    def __init__(
        self,
        shards: int = 2,
        nodes: int = 1,
        *,
        settings: Settings | None = None,
        parameters: Mapping[str, Mapping[str, str]] | None = None,
        name: str = "jstests",
        **more: Any,
    ) -> None:
        topology = as_upstream(sharded_cluster(shards, nodes, settings=settings))
        for member, values in (parameters or {}).items():
            topology = topology.with_member(member, parameters=values)
        self._topology, self._name, self._more = topology, name, more

    async def __aenter__(self) -> ShardingTest:
        self.cluster = await local.bring_up(self._topology, self._name, **self._more)
        assert self.cluster.router is not None and self.cluster.topology.config is not None
        self.s = Mongo(self.cluster.router, name="router")
        self.rs = [ReplSetTest(self.cluster, one.name) for one in self.cluster.topology.shards]
        self.config_rs = ReplSetTest(self.cluster, self.cluster.topology.config.name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.s.close()
        for one in (*self.rs, self.config_rs):
            await one.close()
        await self.cluster.down()

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
            self.get_other(await self.get_primary_shard(database)),
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
