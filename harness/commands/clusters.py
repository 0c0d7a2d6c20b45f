"""`up`, `down`, `status`, `ls`, `exec`: clusters that outlive the command that made them."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import shutil
import time
from collections.abc import Coroutine
from typing import Any, get_args

import typer

from clusters import adopted, kept, providers, topology
from clusters.errors import Refused
from clusters.providers import Provider
from clusters.quirks import of_version
from clusters.topology import MemberSpec, Settings, Topology
from harness.commands import attached
from harness.interrupts import interruptible
from harness.output import as_json, say, table

Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")
HIGHEST_PRIORITY = 1000
"""Of a member (manual: Replica Set Configuration, `members[n].priority`)."""
Name = typer.Option(None, "--name", help="The cluster's name; else MONGOFAULT_CLUSTER, else 'default'.")


def up(
    name: str = Name,
    shards: int = typer.Option(None, min=1, max=50, help="Number of shards. [default: 2]"),
    members: int = typer.Option(3, min=1, max=200, help="Members of each shard; past seven they have no vote."),
    replica_set: bool = typer.Option(False, "--replica-set", help="One replica set without router instead."),
    config_members: int = typer.Option(None, min=1, max=7, help="Members of the config servers' set. [default: 1]"),
    cache_gb: float = typer.Option(0.25, min=0.25, max=1024, help="Cache of each member, GiB."),
    oplog_mb: int = typer.Option(64, min=1, max=1_000_000, help="Oplog of each member, MiB."),
    heartbeat_ms: int = typer.Option(2000, min=100, max=600_000, help="Heartbeat interval."),
    election_timeout_ms: int = typer.Option(10_000, min=500, max=600_000, help="Election timeout."),
    balancer: str = typer.Option("off", help="Balancer: on or off."),
    tag: list[str] = typer.Option([], "--tag", help="MEMBER:KEY=VALUE, e.g. shard0-1:zone=a (may be repeated)."),
    priority: list[str] = typer.Option([], "--priority", help="MEMBER:NUMBER (may be repeated)."),
    parameter: list[str] = typer.Option(
        [], "--parameter", help="setParameter NAME=VALUE of all, or MEMBER:NAME=VALUE of one (may be repeated)."
    ),
    server_version: str = typer.Option(
        None, metavar="VERSION", help="A version of 'mongofault binaries'; else the servers there are."
    ),
    provider: str = typer.Option(
        "local",
        metavar="|".join(get_args(Provider)),
        help="Processes of this machine; containers by Compose; or 'auto', containers where they can be had.",
    ),
    image: str = typer.Option(
        None, help="Image of the containers; else MONGO_IMAGE, that of 'mongofault image build', or mongo:8.0."
    ),
    proxied: bool = typer.Option(
        False, "--proxied", help="A proxy before every member and the router, for faults in the network."
    ),
    seed: int = typer.Option(0, help="Seed of the stand-in router's choices."),
    json: bool = Json,
) -> None:
    """Bring a cluster up; 'mongofault down' ends it."""
    if replica_set and (shards is not None or config_members is not None):
        raise Refused("--replica-set is one set without shards: leave --shards and --config-members out")
    if balancer not in ("on", "off"):
        raise Refused(f"--balancer {balancer}: expected on or off")
    if provider not in get_args(Provider):
        raise Refused(f"--provider {provider}: expected {', '.join(get_args(Provider))}")
    settings = Settings(
        heartbeat_ms=heartbeat_ms,
        election_timeout_ms=election_timeout_ms,
        cache_gb=cache_gb,
        oplog_mb=oplog_mb,
        balancer=balancer == "on",
        server_version=server_version,
        parameters=dict(_pair("--parameter", one) for one in parameter if not _names_member(one)),
    )
    wanted: Topology = (
        topology.single_replica_set(members, settings=settings)
        if replica_set
        else topology.sharded_cluster(shards or 2, members, config_members=config_members or 1, settings=settings)
    )
    for one in tag:
        member, key, value = _of_one("--tag", one)
        if not re.fullmatch(r"[\w-]+", key):
            raise Refused(f"--tag {one}: expected a key of letters, digits, '_' and '-'")
        wanted = wanted.with_member(member, tags={**_spec(wanted, "--tag", member).tags, key: value})
    for one in filter(_names_member, parameter):
        member, key, value = _of_one("--parameter", one)
        changed = {**_spec(wanted, "--parameter", member).parameters, key: value}
        wanted = wanted.with_member(member, parameters=changed)
    for one in priority:
        member, _, number = one.partition(":")
        spec = _spec(wanted, "--priority", member)
        try:
            wanted_priority = float(number)
        except ValueError:
            wanted_priority = -1.0
        if not 0 <= wanted_priority <= HIGHEST_PRIORITY:
            raise Refused(f"--priority {one}: expected MEMBER:NUMBER, the number from 0 to {HIGHEST_PRIORITY}")
        if wanted_priority and not spec.votes:
            raise Refused(f"--priority {one}: a member without a vote has priority 0")
        wanted = wanted.with_member(member, priority=wanted_priority)
    more = {"seed": seed, "proxied": proxied, "provider": provider, "image": image}
    record = _run(_up(wanted, name or kept.default_name(), more))
    if json:
        as_json(_status(record))
        return
    say(f"cluster {record.name} is up: {record.server.version}, router {record.server.router}")
    say(f"MONGODB_URI={record.uri}")
    if not of_version(record.server.version).drivers:
        say("for raw wire only: today's drivers refuse this version")
    say(f"end it with: mongofault down{'' if record.name == kept.default_name() else ' ' + record.name}")


async def _up(wanted: Topology, name: str, more: dict[str, Any]) -> kept.ClusterRecord:
    started = time.time()
    return kept.save(await providers.bring_up(wanted, name, **more), created=started)


def down(
    names: list[str] = typer.Argument(None, metavar="NAME", help="Clusters to remove."),
    every: bool = typer.Option(False, "--all", help="All kept clusters."),
) -> None:
    """Remove a cluster: its processes or containers, its data, its record."""
    ours = [name for name in kept.names() if not kept.is_adopted(name)]
    doomed = ours if every else names or [kept.default_name()]
    if not doomed:
        say("no cluster is up")
    for name in doomed:
        _run(kept.down(name))
        say(f"cluster {name} is gone")


def status(
    name: str = typer.Argument(None, help="The cluster; else MONGOFAULT_CLUSTER, else 'default'."), json: bool = Json
) -> None:
    """Say what the members of a cluster are doing."""
    if kept.is_adopted(name := name or kept.default_name()):
        attached.status_of(name, json=json)
        return
    record = kept.read(name)
    if json:
        as_json(_status(record))
        return
    words = kept.running(record)
    say(f"cluster {record.name}: {record.server.version}, router {record.server.router}, {record.uri}")
    rows: list[tuple[object, ...]] = [
        (
            spec.name,
            record.hosts[spec.name],
            spec.role,
            ",".join(f"{k}={v}" for k, v in spec.tags.items()),
            words[spec.name],
        )
        for spec in record.topology.members()
    ]
    if record.router:
        rows.append(("router", record.router, record.server.router, "", words.get("router", "gone")))
    table(("member", "host", "role", "tags", "process"), rows)


def ls(json: bool = Json) -> None:
    """List the clusters that are up."""
    rows: list[tuple[str, str, str, str]] = []
    documents: list[dict[str, object]] = []
    for name in kept.names():
        try:
            if kept.is_adopted(name):
                adopted_record = adopted.read(name)
                rows.append((name, _when(adopted_record.created), "adopted", adopted_record.uri))
                documents.append(dataclasses.asdict(adopted_record))
                continue
            record = kept.read(name)
        except Refused as error:
            rows.append((name, "?", "?", str(error)))
            documents.append({"name": name, "error": str(error)})
            continue
        words = list(kept.running(record).values())
        rows.append((name, _when(record.created), f"{words.count('running')}/{len(words)} running", record.uri))
        documents.append(_status(record))
    if json:
        as_json(documents)
    elif not rows:
        say("no cluster is up (mongofault up makes one)")
    else:
        table(("name", "since", "processes", "uri"), rows)


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def exec_(
    command: list[str] = typer.Argument(..., metavar="-- CMD [ARG]...", help="Command to run."), name: str = Name
) -> None:
    """Run a command with MONGODB_URI set to a cluster."""
    if kept.is_adopted(name := name or kept.default_name()):
        uri = adopted.uri_of(adopted.read(name)).full
    else:
        uri = kept.read(name).uri
    if shutil.which(command[0]) is None:
        raise Refused(f"exec: there is no command {command[0]!r}")
    # In our place: signals, the terminal and the exit code are its own.
    os.execvpe(command[0], command, {**os.environ, "MONGODB_URI": uri})


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(interruptible(work))


def _status(record: kept.ClusterRecord) -> dict[str, object]:
    words = kept.running(record)
    return {
        "name": record.name,
        "uri": record.uri,
        "server": dataclasses.asdict(record.server),
        "router": record.router,
        "created": record.created,
        "provider": "local" if record.containers is None else "compose",
        "members": [
            {
                "name": spec.name,
                "host": record.hosts[spec.name],
                "set": spec.set_name,
                "role": spec.role.value,
                "tags": dict(spec.tags),
                "process": words[spec.name],
            }
            for spec in record.topology.members()
        ],
    }


def _names_member(option: str) -> bool:
    """Whether it is MEMBER:NAME=VALUE; a value may hold colons."""
    head, colon, _ = option.partition(":")
    return bool(colon) and "=" not in head


def _pair(option: str, given: str) -> tuple[str, str]:
    """NAME=VALUE. Raises Refused."""
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise Refused(f"{option} {given}: expected NAME=VALUE")
    return key, value


def _of_one(option: str, given: str) -> tuple[str, str, str]:
    """MEMBER:NAME=VALUE. Raises Refused."""
    member, _, pair = given.partition(":")
    key, equals, value = pair.partition("=")
    if not member or not equals or not key:
        raise Refused(f"{option} {given}: expected MEMBER:NAME=VALUE")
    return member, key, value


def _spec(wanted: Topology, option: str, member: str) -> MemberSpec:
    """The member of that name. Raises Refused naming those there are."""
    for spec in wanted.members():
        if spec.name == member:
            return spec
    names = ", ".join(spec.name for spec in wanted.members())
    raise Refused(f"{option}: there is no member {member!r}; members: {names}")
