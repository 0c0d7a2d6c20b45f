"""What a run does to a cluster besides breaking it: the namespace, the tags, and waiting until it is whole again.

Provider-neutral; every wait has a deadline that its error names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from clusters import admin, ready
from clusters.cluster import Cluster, data_members, of_set, primary_of
from clusters.errors import ClusterError
from clusters.liveness import together
from clusters.member import Member
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from harness.drivers.writers import Document
from harness.watchers.peers import by_monitors

Tags = Mapping[str, Mapping[str, str]]

SHARD_KEY: Final = "region"
TAGS_SEEN_DEADLINE = 30.0
RECOVERY_DEADLINE = 60.0
LAG_AT_MOST = 2.0
"""Seconds behind the primary at which a secondary counts as caught up; the no-op writer ticks once a second."""


async def make_namespace(cluster: Cluster, namespace: str, documents: Sequence[Document]) -> None:
    """A collection sharded by region, region i on the i-th shard, with the documents in it."""
    database, _, collection = namespace.partition(".")
    async with cluster.client(serverSelectionTimeoutMS=10_000) as client:
        await ready.spread(cluster, client, namespace, SHARD_KEY)
        target = client[database].get_collection(collection, write_concern=WriteConcern("majority"))
        await target.insert_many([{**document.filter, "seq": 0} for document in documents])


async def current_tags(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The tags these members bear now, by name."""
    by_host = {cluster.members[name].host: name for name in names}
    found: dict[str, dict[str, str]] = {}
    for set_name in sorted({cluster.members[name].spec.set_name for name in names}):
        async with admin.connected((await primary_of(cluster, set_name)).host) as connection:
            for member in (await admin.current_config(connection))["members"]:
                if member["host"] in by_host:
                    found[by_host[member["host"]]] = dict(member.get("tags", {}))
    return found


def by_set(cluster: Cluster, tags: Tags) -> dict[str, dict[str, dict[str, str]]]:
    """The same tags by set and then by host."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name, one in tags.items():
        member = cluster.members[name]
        found.setdefault(member.spec.set_name, {})[member.host] = dict(one)
    return found


async def set_tags(cluster: Cluster, tags: Tags) -> None:
    """Reconfigure the sets whose members do not bear these tags yet."""
    for set_name, hosts in by_set(cluster, tags).items():
        async with admin.connected((await primary_of(cluster, set_name)).host) as connection:
            await admin.move_tags(connection, hosts)


async def tags_seen(cluster: Cluster, by: Member, tags: Tags) -> None:
    """Wait until `by`, which routes lookups, sees these tags on the members of its set.

    `connPoolStats.replicaSets.<set>.hosts` is its replica set monitor's view; a set it never routed to is not in it.
    """
    wanted = {cluster.members[name].host: dict(one) for name, one in tags.items()}

    async def seen() -> bool:
        reply = await connection.command("admin", {"connPoolStats": 1}, deadline=5)
        hosts = reply.get("replicaSets", {}).get(by.spec.set_name, {}).get("hosts", [])
        view = {one["addr"]: dict(one.get("tags", {})) for one in hosts}
        return not view or all(view.get(host) == one for host, one in wanted.items())

    async with admin.connected(by.host) as connection:
        await admin.until(f"{by.name} sees the moved tags", seen, deadline=TAGS_SEEN_DEADLINE)


async def drop_pooled(cluster: Cluster, towards: Member) -> None:
    """Make the other members of its set forget their pooled connections to a member: who needs one must dial."""
    for member in of_set(cluster, towards.spec.set_name):
        if member is not towards:
            async with admin.connected(member.host) as connection:
                await connection.command("admin", {"dropConnections": 1, "hostAndPort": [towards.host]}, deadline=5)


async def census(cluster: Cluster, namespace: str) -> list[tuple[Any, int]]:
    """Each document's `_id` and sequence, as the majority has them."""
    database, _, collection = namespace.partition(".")
    async with cluster.client(serverSelectionTimeoutMS=10_000, timeoutMS=60_000) as client:
        target = client[database].get_collection(collection, read_concern=ReadConcern("majority"))
        return [(one["_id"], one["seq"]) async for one in target.find({}, {"seq": 1})]


async def recovered(cluster: Cluster) -> None:
    """Wait until every set has a writable primary, every other member is a caught-up SECONDARY, and the members' own
    monitors know each of them again: a lookup is not sent to one that they hold for failed, up to 20 s longer."""
    await together(*(_set_recovered(cluster, one.name) for one in cluster.topology.sets()))
    await together(*(_seen_again(cluster, member) for member in data_members(cluster)))


async def _seen_again(cluster: Cluster, by: Member) -> None:
    ours = {member.host for member in cluster.members.values()}

    async def seen() -> bool:
        try:
            async with admin.connected(by.host) as connection:
                reply = await connection.command("admin", {"connPoolStats": 1}, deadline=5)
        except (ClusterError, CommandFailed, ConnectionLost, DeadlinePassed):
            return False
        return not any(why for hosts in by_monitors(reply).values() for host, why in hosts.items() if host in ours)

    await admin.until(f"the monitor of {by.name} knows every member again", seen, deadline=RECOVERY_DEADLINE)


async def _set_recovered(cluster: Cluster, set_name: str) -> None:
    async def whole() -> bool:
        try:
            primary = await primary_of(cluster, set_name)
            async with admin.connected(primary.host) as connection:
                status = await connection.command("admin", {"replSetGetStatus": 1}, deadline=5)
        except (ClusterError, CommandFailed, ConnectionLost, DeadlinePassed):
            return False
        members = [member for member in status["members"] if member.get("stateStr") != "ARBITER"]  # it has no data
        newest = max(member["optimeDate"] for member in members if "optimeDate" in member)
        return all(
            member.get("stateStr") in ("PRIMARY", "SECONDARY")
            and (newest - member["optimeDate"]).total_seconds() <= LAG_AT_MOST
            for member in members
        )

    await admin.until(f"{set_name} is whole again", whole, deadline=RECOVERY_DEADLINE)
