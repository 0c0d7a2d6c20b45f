"""What cluster a URI leads to: sets, members, router, server. Reads only, and as little as will do.

Through a router: config.shards, and the configuration of each set from whichever of its members answers. Knows no fault
and no ownership.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters import ownership
from clusters.attached import AttachedCluster, AttachedMember
from clusters.cluster import RouterKind, ServerInfo
from clusters.errors import Refused
from clusters.topology import MemberSpec, Role, SetSpec, Settings, Topology
from clusters.uri import Uri
from clusters.wire import access
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

DEADLINE: Final = 5.0
"""Seconds for each answer."""
IMPATIENCE: Final = 0.5
"""Seconds until the next member of a set is asked as well, whose answer is as good."""
PARAMETERS: Final[tuple[str, ...]] = ("enableTestCommands", "periodicNoopIntervalSecs")
COMMAND_NOT_FOUND: Final = 59


@dataclass(frozen=True, slots=True)
class _Set:
    spec: SetSpec
    hosts: dict[str, str]
    settings: Mapping[str, Any]


async def attach(uri: Uri, *, members_as: Uri | None = None) -> AttachedCluster:
    """The cluster. Its name is the replica set's, or `sharded-` and the end of the cluster's own id.

    `members_as` says who one is to its members, where they have users of their own; its hosts are not looked at.
    Raises Refused where nobody answers, where a command is not permitted, and for what is no cluster.
    """
    access.grant(uri.hosts, uri.access)
    through = await ownership.first_of(uri.hosts)
    try:
        found = _sharded if through.hello.get("msg") == "isdbgrid" else _replica_set
        return await found(through, uri, members_as or uri)
    except CommandFailed as error:
        raise Refused(
            f"what {through.host} belongs to cannot be found out: {error.command} fails with {error.code} "
            f"{error.code_name} (the role clusterMonitor suffices)"
        ) from None
    except (ConnectionLost, DeadlinePassed) as error:
        raise Refused(str(error)) from None
    finally:
        through.close()


async def _sharded(router: Connection, uri: Uri, member: Uri) -> AttachedCluster:
    (version,) = await _all(router, "config", "version")
    sets = []
    for shard in sorted(await _all(router, "config", "shards"), key=lambda one: str(one["_id"])):
        sets.append(await _set(shard["host"], Role.SHARD, member))
        if sets[-1].spec.name != shard["_id"]:
            raise Refused(
                f"shard {shard['_id']} is not called like its set {sets[-1].spec.name}; that is not provided for"
            )
    config = await _set((await _command(router, {"getShardMap": 1}))["map"]["config"], Role.CONFIG, member)
    topology = Topology(
        shards=tuple(one.spec for one in sets), config=config.spec, settings=_settings(sets[0] if sets else config)
    )
    try:
        await _command(router, {"mongofaultRouterStatus": 1})
        kind: RouterKind = "stand-in"
    except CommandFailed as error:
        if error.code != COMMAND_NOT_FOUND:
            raise
        kind = "mongos"
    server = await _server(router, kind, [host for one in sets for host in one.hosts.values()])
    name = f"sharded-{str(version['clusterId'])[-6:]}"
    return _cluster(name, topology, [*sets, config], router.host, server, uri, member)


async def _replica_set(member: Connection, uri: Uri, members_as: Uri) -> AttachedCluster:
    name = member.hello.get("setName")
    if name is None:
        raise Refused(f"{member.host} is a mongod by itself: expected a replica set, or a router of a sharded cluster")
    if uri.set_name is not None and uri.set_name != name:
        raise Refused(f"{member.host} belongs to set {name}, not to {uri.set_name} as the URI says")
    if member.hello.get("configsvr") or await _is_shard(member):
        raise Refused(f"{member.host} is part of a sharded cluster: expected the URI of its router")
    one = await _set(f"{name}/{member.host}", Role.REPLICA_SET, members_as)
    topology = Topology(shards=(one.spec,), settings=_settings(one))
    server = await _server(member, "none", list(one.hosts.values()))
    return _cluster(name, topology, [one], None, server, uri, members_as)


def _cluster(
    name: str, topology: Topology, sets: Sequence[_Set], router: str | None, server: ServerInfo, uri: Uri, member: Uri
) -> AttachedCluster:
    hosts = {member: host for one in sets for member, host in one.hosts.items()}
    access.grant(hosts.values(), member.access)
    if router:
        access.grant([router], uri.access)
    members = {spec.name: AttachedMember(spec, hosts[spec.name], member.options) for spec in topology.members()}
    return AttachedCluster(name, topology, members, router, server, uri.full, uri.options)


async def _set(connection_string: str, role: Role, uri: Uri) -> _Set:
    """A set from `SET/HOST,HOST`. Members are called SET-ID by the ids of the configuration, arbiters left out.

    Where no member lets its configuration be read (users of a router are not known to the shards) they are those of
    the connection string, in its order.
    """
    name, _, listed = connection_string.partition("/")
    configuration = await _configuration(listed.split(","), name, uri)
    if configuration is None:
        configuration = {"members": [{"_id": index, "host": host} for index, host in enumerate(listed.split(","))]}
    members = [one for one in configuration["members"] if not one.get("arbiterOnly")]
    specs = tuple(
        MemberSpec(
            name=f"{name}-{one['_id']}",
            set_name=name,
            role=role,
            priority=float(one.get("priority", 1)),
            votes=int(one.get("votes", 1)),
            tags=dict(one.get("tags", {})),
        )
        for one in members
    )
    hosts = {spec.name: str(one["host"]) for spec, one in zip(specs, members, strict=True)}
    return _Set(SetSpec(name, role, specs), hosts, configuration.get("settings", {}))


async def _configuration(hosts: Sequence[str], set_name: str, uri: Uri) -> dict[str, Any] | None:
    access.grant(hosts, uri.access)
    answer = await _of_any(hosts, {"replSetGetConfig": 1})
    if answer is None or answer["config"]["_id"] != set_name:
        return None
    config: dict[str, Any] = answer["config"]
    return config


async def _of_any(hosts: Sequence[str], command: dict[str, Any]) -> dict[str, Any] | None:
    """The reply of the first that gives one, None where none does. One that takes its time holds up nobody for long."""
    asked: list[asyncio.Task[dict[str, Any] | None]] = []
    try:
        for host in hosts:
            asked.append(asyncio.create_task(_of_one(host, command)))
            done, _ = await asyncio.wait(asked[-1:], timeout=IMPATIENCE)
            if done and asked[-1].result() is not None:
                return asked[-1].result()
        for answer in asyncio.as_completed(asked):
            if (reply := await answer) is not None:
                return reply
        return None
    finally:
        for one in asked:
            one.cancel()


async def _of_one(host: str, command: dict[str, Any]) -> dict[str, Any] | None:
    try:
        connection = await Connection.open(host, deadline=DEADLINE)
        try:
            return await _command(connection, command)
        finally:
            connection.close()
    except (ConnectionLost, DeadlinePassed, CommandFailed):
        return None


async def _is_shard(member: Connection) -> bool:
    try:
        return bool((await _command(member, {"shardingState": 1})).get("enabled"))
    except CommandFailed:
        return False


async def _server(connection: Connection, kind: RouterKind, members: Sequence[str]) -> ServerInfo:
    """Its parameters are those of the members: a router has them not."""
    build = await _command(connection, {"buildInfo": 1})
    known = await _of_any(members, {"getParameter": 1, **dict.fromkeys(PARAMETERS, 1)}) or {}
    parameters: dict[str, str] = {name: str(known[name]) for name in PARAMETERS if name in known}
    return ServerInfo(str(build["version"]), str(build["gitVersion"]), kind, parameters)


def _settings(one: _Set) -> Settings:
    return Settings(
        heartbeat_ms=int(one.settings.get("heartbeatIntervalMillis", 2000)),
        election_timeout_ms=int(one.settings.get("electionTimeoutMillis", 10_000)),
        chaining_allowed=bool(one.settings.get("chainingAllowed", True)),
    )


async def _all(router: Connection, database: str, collection: str) -> list[dict[str, Any]]:
    """A collection of a few documents."""
    ask = {"find": collection, "singleBatch": True, "batchSize": 1000}
    found: list[dict[str, Any]] = (await router.command(database, ask, deadline=DEADLINE))["cursor"]["firstBatch"]
    return found


async def _command(connection: Connection, command: dict[str, Any]) -> dict[str, Any]:
    return await connection.command("admin", command, deadline=DEADLINE)
