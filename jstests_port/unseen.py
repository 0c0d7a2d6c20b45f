"""What upstream has a second, fresh mongos for: chunks split and moved behind the router's back, so that it is stale.

Asked of the config servers and the shards themselves, as a router asks them; `st.s` and, where it is a stand-in, the
mongod that it runs its commands in learn of it only from the shards' stale answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from clusters import admin
from harness import ranges
from jstests_port.mongo import Mongo
from jstests_port.sharding_test import ShardingTest

DEADLINE = 60.0
"""Seconds for one split."""


async def move_range_unseen(
    st: ShardingTest,
    namespace: str,
    to: str,
    lower: Mapping[str, Any],
    upper: Mapping[str, Any],
    *,
    wait_for_delete: bool = True,
) -> None:
    """From `lower` up to `upper` to the shard of that name; a chunk that reaches over is split (6.0 or later)."""
    await ranges.move_range(st.cluster, namespace, lower, upper, to, waitForDelete=wait_for_delete)


async def split_unseen(st: ShardingTest, namespace: str, middle: Mapping[str, Any]) -> None:
    """The chunk that holds `middle`, of a key of one field; only its shard knows."""
    config = (await st.config_rs.get_primary()).config
    collection = await config.collections.find_one({"_id": namespace})
    assert collection is not None, f"{namespace} is not sharded"
    (field,), (value,) = collection["key"], middle.values()
    found = {"uuid": collection["uuid"], f"min.{field}": {"$lt": value}, f"max.{field}": {"$gt": value}}
    (chunk,) = await config.chunks.find(found).to_list()
    owner = next(one for one in st.rs if one.name == chunk["shard"])
    async with admin.connected((await owner.get_primary()).host) as connection:
        await connection.command("admin", ranges.split_chunk(collection, chunk, middle), deadline=DEADLINE)


@asynccontextmanager
async def routing_node(st: ShardingTest) -> AsyncIterator[Mongo]:
    """The node whose router routes what is not numbered: the mongos, or the mongod that a stand-in runs commands in."""
    if st.cluster.server.router == "mongos":
        yield st.s
        return
    assert st.cluster.topology.router_host is not None
    (host,) = st.cluster.topology.router_host.members
    node = Mongo(st.cluster.members[host.name].host, name=host.name, directConnection=True)
    async with node:
        yield node
