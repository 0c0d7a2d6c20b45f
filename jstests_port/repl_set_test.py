"""Upstream's `ReplSetTest` (jstests/libs/replsettest.js): one replica set of a cluster, by the names it has there.

A shard, the config servers, or a replica set of its own, which `repl_set_test` brings up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bson.timestamp import Timestamp

from clusters import admin, local
from clusters.cluster import Own, of_set, primary_of
from clusters.errors import ClusterError
from clusters.member import Member
from clusters.topology import Settings, Topology, single_replica_set
from harness import stage
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.servers import asked_version

DEADLINE = 60.0
"""Seconds for a set to come to what is waited for; an election timeout is the longest of it."""


class ReplSetTest:
    """`nodes` in the order of the topology; the first is the primary at first. All have priority 1, so that who was
    stepped up stays."""

    def __init__(self, cluster: Own, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.nodes = [
            Mongo(one.host, name=one.name, shard_name=name, directConnection=True) for one in of_set(cluster, name)
        ]

    async def close(self) -> None:
        for node in self.nodes:
            await node.close()

    def member(self, node: Mongo) -> Member:
        """The same node as a process, to be frozen, killed and started."""
        return self.cluster.members[node.name]

    def get_url(self) -> str:
        return f"{self.name}/" + ",".join(node.host for node in self.nodes)

    async def get_primary(self) -> Mongo:
        """The writable primary, waited for."""
        found: list[str] = []

        async def there() -> bool:
            try:
                found[:] = [(await primary_of(self.cluster, self.name)).name]
            except ClusterError:
                return False
            return True

        await admin.until(f"{self.name} has a writable primary", there, deadline=DEADLINE)
        return next(node for node in self.nodes if node.name == found[0])

    async def get_secondaries(self) -> list[Mongo]:
        return [node for node in self.nodes if (await _hello(node)).get("secondary")]

    async def get_secondary(self) -> Mongo:
        return (await self.get_secondaries())[0]

    async def await_secondary_nodes(self) -> None:
        async def all_are() -> bool:
            hellos = [await _hello(node) for node in self.nodes]
            return all(hello.get("secondary") or hello.get("isWritablePrimary") for hello in hellos)

        await admin.until(f"every node of {self.name} is primary or secondary", all_are, deadline=DEADLINE)

    async def await_nodes_agree_on_primary(self) -> Mongo:
        """One of them is the writable primary, and all others name it."""

        async def agreed() -> bool:
            hellos = [await _hello(node) for node in self.nodes]
            named = {hello.get("primary") for hello in hellos}
            return len(named) == 1 and None not in named and any(one.get("isWritablePrimary") for one in hellos)

        await admin.until(f"the nodes of {self.name} agree on a primary", agreed, deadline=DEADLINE)
        return await self.get_primary()

    async def await_replication(self) -> None:
        """Every node has what the primary has now."""
        await self._all_have("opTime", "every node of {} has what its primary has")

    async def await_last_op_committed(self) -> None:
        """Every node knows that what the primary has now is committed."""
        await self._all_have("majorityOpTime", "every node of {} knows the last operation to be committed")

    async def _all_have(self, which: str, what: str) -> None:
        wanted = _optime(await _hello(await self.get_primary()), "opTime")

        async def all_do() -> bool:
            return all([_optime(await _hello(node), which) >= wanted for node in self.nodes])

        await admin.until(what.format(self.name), all_do, deadline=DEADLINE)

    async def step_up(self, node: Mongo) -> None:
        """`node` becomes the primary, and all agree on it."""
        await self.await_replication()
        if not (await _hello(node)).get("isWritablePrimary"):
            await node.admin.command("replSetStepUp", 1)
        assert await self.await_nodes_agree_on_primary() is node

    async def stop_server_replication(self, *nodes: Mongo) -> None:
        """They fetch nothing any more (jstests/libs/write_concern_util.js)."""
        for node in nodes:
            await (await configure_fail_point(node, "stopReplProducer")).wait()

    async def restart_server_replication(self, *nodes: Mongo) -> None:
        for node in nodes:
            await node.admin.command("configureFailPoint", "stopReplProducer", mode="off")

    async def set_tags(self, tags: Mapping[str, Mapping[str, str]]) -> None:
        """By name of the node; and the members of the set have heard of it, as far as they route anything to it."""
        await stage.set_tags(self.cluster, tags)
        for node in self.nodes:
            await self.await_rs_client_hosts(node, tags)

    async def await_rs_client_hosts(self, conn: Mongo, tags: Mapping[str, Mapping[str, str]]) -> None:
        """`conn`, which routes, has heard that the nodes of these names bear these tags (jstests/replsets/rslib.js).
        What it has not routed to yet it does not watch, and learns when it does."""
        wanted = {node.host: dict(tags[node.name]) for node in self.nodes if node.name in tags}

        async def heard() -> bool:
            sets = (await conn.admin.command("connPoolStats")).get("replicaSets", {})
            known = {one["addr"]: dict(one.get("tags", {})) for one in sets.get(self.name, {}).get("hosts", ())}
            return not known or all(known.get(host) == one for host, one in wanted.items())

        await admin.until(f"{conn.name} has heard of the tags of {self.name}", heard, deadline=DEADLINE)

    @asynccontextmanager
    async def tagged(self, tags: Sequence[Mapping[str, str]]) -> AsyncIterator[None]:
        """The nodes bear these tags, in their order, until the end of the block; then none."""
        names = [node.name for node in self.nodes]
        await self.set_tags(dict(zip(names, tags, strict=True)))
        try:
            yield
        finally:
            await self.set_tags({name: {} for name in names})


async def _hello(node: Mongo) -> Document:
    return await node.admin.command("hello")


def _optime(hello: Document, which: str) -> Timestamp:
    timestamp: Timestamp = hello["lastWrite"][which]["ts"]
    return timestamp


def as_upstream(topology: Topology) -> Topology:
    """On the servers asked for, and with equal priorities: no node takes the primary's place back by itself."""
    topology = topology.of_version(asked_version())
    for member in list(topology.members()):
        if member.priority > 1:
            topology = topology.with_member(member.name, priority=1.0)
    return topology


@asynccontextmanager
async def repl_set_test(
    nodes: int = 3, *, settings: Settings | None = None, name: str = "jstests", **more: Any
) -> AsyncIterator[ReplSetTest]:
    """A plain replica set of its own. `more`: what `clusters.local.bring_up` takes besides (`proxied`)."""
    topology = as_upstream(single_replica_set(nodes, settings=settings))
    cluster = await local.bring_up(topology, name, **more)
    rst = ReplSetTest(cluster, topology.shards[0].name)
    try:
        yield rst
    finally:
        await rst.close()
        await cluster.down()
