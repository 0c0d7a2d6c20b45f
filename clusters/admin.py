"""What is said to members to make a cluster of them: initiate, reconfigure, add shards, shard, move, tag.

Works on raw connections; knows no provider. Every wait has a deadline, in seconds, that its error names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from clusters.errors import ClusterError
from clusters.topology import MAX_VOTERS, Role, SetSpec, Settings
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

Document = dict[str, Any]

MAJORITY: Final = {"w": "majority", "wtimeout": 30_000}
BRING_UP_HEARTBEAT_MS: Final = 100
"""With 2 s between heartbeats a new set needs seconds to see its members; set back before the cluster is Ready. Every
member sends one to every other: of 18 members 3,000 a second would be all that two cores do, so a set with members
past the voters has its own interval from the start."""
POLL: Final = 0.02
RECONFIGURE_DEADLINE: Final = 20.0

FAIL_POINT_UNKNOWN: Final = (82, 266)
"""What 4.4 to 6.0 answer, and what 4.2.6 does."""
NEW_CONFIG_IN_PROGRESS: Final = (109, 308, 103)
"""ConfigurationInProgress, CurrentConfigNotCommittedYet, NewReplicaSetConfigurationIncompatible: try again."""


async def until(what: str, condition: Callable[[], Awaitable[bool]], *, deadline: float, every: float = POLL) -> None:
    """Wait until `condition` holds, looked at `every` so many seconds. Raises ClusterError naming `what` after
    `deadline` seconds."""
    try:
        async with asyncio.timeout(deadline):
            # What is waited for happens in another process, which sends no notice of it.
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(every)
    except TimeoutError as error:
        raise ClusterError(f"{what}: not so within {deadline:g} s") from error


@asynccontextmanager
async def connected(host: str, *, deadline: float = 10) -> AsyncIterator[Connection]:
    """A connection for the length of a block. Raises ClusterError after `deadline` seconds."""
    connection = await connect(host, deadline=deadline)
    try:
        yield connection
    finally:
        connection.close()


async def connect(host: str, *, deadline: float, alive: Callable[[], bool] | None = None) -> Connection:
    """A connection to a member that may not listen yet.

    Raises ClusterError after `deadline` seconds, and as soon as `alive` says that nobody will ever listen.
    """
    last: Exception | None = None
    try:
        async with asyncio.timeout(deadline):
            while True:
                try:
                    return await Connection.open(host, deadline=deadline)
                except ConnectionLost as error:
                    last = error
                if alive is not None and not alive():
                    raise ClusterError(f"{host} ended instead of listening")
                await asyncio.sleep(POLL)
    except (TimeoutError, DeadlinePassed) as error:
        raise ClusterError(f"{host} does not answer within {deadline:g} s" + (f": {last}" if last else "")) from error


def set_config(
    one: SetSpec, hosts: Mapping[str, str], settings: Settings, *, heartbeat_ms: int, version: int
) -> Document:
    """The replica set configuration of `one`; `hosts` maps member names to `address:port`."""
    document: Document = {
        "_id": one.name,
        "version": version,
        "protocolVersion": 1,
        "members": [
            {
                "_id": index,
                "host": hosts[member.name],
                "priority": member.priority,
                "votes": member.votes,
                "tags": dict(member.tags),
            }
            for index, member in enumerate(one.members)
        ],
        "settings": {
            "heartbeatIntervalMillis": heartbeat_ms,
            "electionTimeoutMillis": settings.election_timeout_ms,
            # A stopped member may be the sync source of a healthy one: then the majority point stalls as well
            # and a stream is quiet for another reason than the one looked for.
            "chainingAllowed": settings.chaining_allowed,
        },
    }
    if one.role is Role.CONFIG:
        document["configsvr"] = True
    return document


async def initiate(first: Connection, one: SetSpec, hosts: Mapping[str, str], settings: Settings) -> None:
    """Make a replica set of running members, `first` being connected to the first of them.

    Initiated alone a member elects itself at once; all others then come in by one forced reconfiguration. That takes
    0.2 s where an initiation of all of them waits for a whole election timeout (measured on 6.0.5: 5 s and more).
    """
    heartbeat_ms = settings.heartbeat_ms if len(one.members) > MAX_VOTERS else BRING_UP_HEARTBEAT_MS
    config = set_config(one, hosts, settings, heartbeat_ms=heartbeat_ms, version=1)
    alone = {**config, "members": [{**config["members"][0], "priority": 1}]}
    await first.command("admin", {"replSetInitiate": alone}, deadline=20)
    await writable(first, one.name, deadline=20)
    if len(one.members) > 1:
        await first.command("admin", {"replSetReconfig": {**config, "version": 2}, "force": True}, deadline=20)


async def writable(member: Connection, set_name: str, *, deadline: float) -> None:
    async def is_primary() -> bool:
        return bool((await member.command("admin", {"hello": 1}, deadline=deadline)).get("isWritablePrimary"))

    await until(f"{member.host} is the writable primary of {set_name}", is_primary, deadline=deadline)


async def secondary(member: Connection, set_name: str, *, deadline: float) -> None:
    async def is_secondary() -> bool:
        hello = await member.command("admin", {"hello": 1}, deadline=deadline)
        return bool(hello.get("secondary") or hello.get("isWritablePrimary"))

    await until(f"{member.host} is a SECONDARY of {set_name}", is_secondary, deadline=deadline)


async def current_config(primary: Connection) -> Document:
    reply = await primary.command("admin", {"replSetGetConfig": 1}, deadline=10)
    config: Document = reply["config"]
    return config


async def reconfigure(primary: Connection, change: Callable[[Document], bool], *, force: bool = False) -> None:
    """Let `change` alter the current configuration and, if it says that it did, install it.

    `force` does not wait for the members: one that is frozen makes an ordinary one last 12 s (measured on 6.0.5).
    Waits out a configuration that is not committed yet. Raises ClusterError after RECONFIGURE_DEADLINE seconds.
    """

    async def installed() -> bool:
        config = await current_config(primary)
        if not change(config):
            return True
        config["version"] += 1
        try:
            await primary.command("admin", {"replSetReconfig": config, "force": force}, deadline=RECONFIGURE_DEADLINE)
        except CommandFailed as error:
            if error.code in NEW_CONFIG_IN_PROGRESS:
                return False
            raise
        return True

    await until(f"a new configuration is installed through {primary.host}", installed, deadline=RECONFIGURE_DEADLINE)


async def set_heartbeat(primary: Connection, milliseconds: int) -> None:
    """Forced: an ordinary one waits until a majority has it, by then two of the new, slower heartbeats away."""
    config = await current_config(primary)
    if config["settings"]["heartbeatIntervalMillis"] == milliseconds:
        return
    config["settings"]["heartbeatIntervalMillis"] = milliseconds
    await primary.command("admin", {"replSetReconfig": config, "force": True}, deadline=RECONFIGURE_DEADLINE)


async def move_tags(primary: Connection, tags: Mapping[str, Mapping[str, str]]) -> None:
    """Set the tags of the hosts named, leaving the other members' alone."""
    await set_fields(primary, {host: {"tags": dict(one)} for host, one in tags.items()})


async def set_fields(primary: Connection, fields: Mapping[str, Mapping[str, Any]], *, force: bool = False) -> None:
    """Set fields (`tags`, `hidden`, `priority`) of the hosts named in the configuration, leaving all else alone."""
    await reconfigure(primary, lambda config: give(config, fields), force=force)


def give(config: Document, fields: Mapping[str, Mapping[str, Any]]) -> bool:
    """Set fields of the hosts named in `config`; whether that changed anything."""
    changed = False
    for member in config["members"]:
        for name, value in fields.get(member["host"], {}).items():
            changed |= member.get(name) != value
            member[name] = value
    return changed


async def add_shard(config: Connection, name: str, hosts: list[str]) -> None:
    """`_configsvrAddShard`, on the primary of the config servers."""
    await config.command(
        "admin",
        {"_configsvrAddShard": f"{name}/{','.join(hosts)}", "name": name, "writeConcern": MAJORITY},
        deadline=30,
    )


async def attach_router_host(
    config: Connection, host: Connection, connection_string: str, feature_version: str
) -> None:
    """Make a one-node set serve `cluster*` commands without being a shard.

    Told a shard identity but never added by `_configsvrAddShard` it gets no chunk and no database and stays out of
    listShards (measured on 6.0.5). Never added, it also stays at the feature version of the release before, in which
    its in-process router takes no sharded collection in a `$lookup`; that is raised here.
    """
    reply = await config.command("config", {"find": "version", "limit": 1}, deadline=10)
    (version,) = reply["cursor"]["firstBatch"]
    identity = {
        "shardName": "router-host",
        "clusterId": version["clusterId"],
        "configsvrConnectionString": connection_string,
    }
    await host.command("admin", {"_addShard": 1, "shardIdentity": identity}, deadline=30)
    await host.command("admin", {"setFeatureCompatibilityVersion": feature_version}, deadline=30)


async def server_version(member: Connection) -> str:
    version: str = (await member.command("admin", {"buildInfo": 1}, deadline=10))["version"]
    return version


async def fail_points_on(member: Connection, points: Mapping[str, Mapping[str, Any]]) -> None:
    """Switch fail points on for good, each with what it is told."""
    for name, data in points.items():
        await member.command("admin", {"configureFailPoint": name, "mode": "alwaysOn", "data": data}, deadline=10)


async def fail_point(member: Connection, name: str, *, deadline: float = 10) -> Mapping[str, Any]:
    """Its `mode`, 0 where it is off, and `timesEntered`, which goes on over uses. Raises CommandFailed."""
    parameter = f"failpoint.{name}"
    state: Mapping[str, Any] = (await member.command("admin", {"getParameter": 1, parameter: 1}, deadline=deadline))[
        parameter
    ]
    return state


async def fail_points_off(member: Connection, names: Iterable[str]) -> None:
    """Switch fail points off; a server that does not know one has it off."""
    for name in names:
        try:
            await member.command("admin", {"configureFailPoint": name, "mode": "off"}, deadline=10)
        except CommandFailed as error:
            if error.code not in FAIL_POINT_UNKNOWN:
                raise


async def set_balancer(config: Connection, *, on: bool) -> None:
    command = "_configsvrBalancerStart" if on else "_configsvrBalancerStop"
    await config.command("admin", {command: 1, "maxTimeMS": 20_000}, deadline=30)
