"""The command lines of the processes that a cluster is made of. Pure: data in, arguments out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clusters.topology import MemberSpec, Role, Settings

BRING_UP_FAIL_POINTS: Final = {
    "forceSyncSourceRetryWaitForInitialSync": {"retryMS": 25},
    "forceBgSyncSyncSourceRetryWaitMS": {"sleepMS": 25},
}
"""Two fixed sleeps of 1 s in every new secondary, shortened (fail points of 4.4 to 6.0, and what they are told); off
again once Ready."""

PARAMETERS: Final = {
    # Fail points exist only with this.
    "enableTestCommands": "1",
    # A merged stream waits for an idle shard until its next no-op; the default of 10 s would make it look stalled.
    "periodicNoopIntervalSecs": "1",
    "diagnosticDataCollectionEnabled": "false",
    # The session collection is created by a background job that would race with the first writes.
    "disableLogicalSessionCacheRefresh": "true",
    # A range can be moved back at once; by default its leavings are kept for 15 minutes and the move fails with 96.
    "orphanCleanupDelaySecs": "0",
}

LOOPBACK: Final = "127.0.0.1"

LEAST_CACHE_GB: Final = 0.25
"""mongod refuses a smaller --wiredTigerCacheSizeGB; the storage engine itself takes one."""

ROLE_FLAGS: Final = {
    Role.CONFIG: ["--configsvr"],
    Role.SHARD: ["--shardsvr"],
    Role.ROUTER_HOST: ["--shardsvr"],
    Role.REPLICA_SET: [],
}


def parameters(spec: MemberSpec, settings: Settings) -> dict[str, str]:
    """The server parameters of a member: ours, then the cluster's, then its own."""
    return {**PARAMETERS, **settings.parameters, **spec.parameters}


def mongod(
    binary: Path | str,
    spec: MemberSpec,
    settings: Settings,
    *,
    port: int,
    data: Path,
    log: Path | None,
    bind_ip: str = LOOPBACK,
) -> list[str]:
    """Arguments of a mongod; without `log` it writes to standard output.

    Small journal files: 300 MB a member otherwise, most of it preallocated.
    """
    engine = "log=(prealloc=false,file_max=1MB)"
    if settings.cache_gb < LEAST_CACHE_GB:
        engine += f",cache_size={round(settings.cache_gb * 1024)}MB"
    arguments = [
        str(binary),
        *_listening(bind_ip, port),
        *("--dbpath", str(data), *_logging(log)),
        *("--replSet", spec.set_name, *ROLE_FLAGS[spec.role]),
        *("--wiredTigerCacheSizeGB", f"{max(settings.cache_gb, LEAST_CACHE_GB):g}"),
        *("--oplogSize", str(settings.oplog_mb), "--wiredTigerEngineConfigString", engine),
    ]
    for name, value in parameters(spec, settings).items():
        arguments += ["--setParameter", f"{name}={value}"]
    return arguments


def with_fail_points(fail_points: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Arguments that start a mongod with these on."""
    values = {name: json.dumps({"mode": "alwaysOn", "data": data}) for name, data in fail_points.items()}
    return [one for name, value in values.items() for one in ("--setParameter", f"failpoint.{name}={value}")]


def mongos(binary: Path | str, *, port: int, config: str, log: Path | None, bind_ip: str = LOOPBACK) -> list[str]:
    return [
        str(binary),
        *_listening(bind_ip, port),
        *("--configdb", config, *_logging(log)),
        *("--setParameter", "enableTestCommands=1"),
    ]


def stand_in(
    *,
    port: int,
    config: str,
    router_host: str,
    seed: int,
    server: str,
    addresses: Mapping[str, str] | None = None,
) -> list[str]:
    """`server`: the version of the cluster's mongods; `addresses`: where hosts are reached that are not where their
    names say."""
    known = [one for host, address in (addresses or {}).items() for one in ("--address", f"{host}={address}")]
    return [
        *(sys.executable, "-m", "clusters.router", "--listen", f"127.0.0.1:{port}"),
        *("--configdb", config, "--router-host", router_host, "--seed", str(seed), *known),
        *("--server-version", server),
    ]


def proxy(*, control: str, links: Mapping[str, tuple[str, str]], peers: Mapping[str, str]) -> list[str]:
    """`links`: name -> where it listens and where that leads; `peers`: a server's own address -> its name."""
    arguments = [sys.executable, "-P", "-m", "clusters.wire.proxy", "--control", control]
    for name, (listen, target) in links.items():
        arguments += ["--link", f"{name}={listen},{target}"]
    for address, name in peers.items():
        arguments += ["--peer", f"{address}={name}"]
    return arguments


def _listening(bind_ip: str, port: int) -> list[str]:
    return ["--bind_ip", bind_ip, "--port", str(port), "--nounixsocket"]


def _logging(log: Path | None) -> list[str]:
    where = [] if log is None else ["--logpath", str(log), "--logappend"]
    return [*where, "--timeStampFormat", "iso8601-utc"]


def log_path(data: Path) -> Path:
    return data / "mongod.log"
