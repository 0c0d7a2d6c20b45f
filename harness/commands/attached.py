"""`attach`, `adopt`, `release`: clusters that are there already, looked at; made ours by hand; let go of."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import typer

from clusters import adopted, discovery, ownership
from clusters.attached import AttachedCluster
from clusters.errors import Refused
from clusters.uri import VARIABLE, Uri, needed
from harness import sight
from harness.interrupts import interruptible
from harness.output import as_json, say, table

Json = typer.Option(False, "--json", help="JSON for other programs instead of text.")
Address = typer.Argument(
    None, metavar="URI", show_default=False, help=f"mongodb://... without a password; else {VARIABLE}."
)
File = typer.Option(None, "--uri-file", metavar="FILE", help="File that holds the URI, with its password.")


def attach(uri: str = Address, uri_file: Path = File, json: bool = Json) -> None:
    """Say what cluster a URI leads to and what the watchers can see of it; reads only."""
    show(needed(uri, uri_file), json=json)


def show(uri: Uri, name: str | None = None, *, json: bool) -> None:
    """The same of an adopted cluster, under the name that it has here."""
    cluster, marker, views = _run(_looked_at(uri))
    if json:
        as_json(_document(cluster, uri, name, marker, views))
        return
    say(f"cluster {name or cluster.name}: {cluster.server.version}, router {cluster.server.router}, {uri}")
    say(f"owner: {marker}")
    columns = ("canary", "currentOp", "pools", "heartbeats")
    words = {True: "yes", False: "no", None: "?"}
    table(
        ("member", "host", "role", "tags", "state", *columns, "fail points"),
        [
            (
                *(one.name, one.host, one.role, ",".join(f"{key}={value}" for key, value in one.tags.items())),
                one.state,
                *(one.answers.get(column, "") for column in columns),
                words[one.fail_points],
            )
            for one in views
        ],
    )


async def _looked_at(uri: Uri) -> tuple[AttachedCluster, str, list[sight.View]]:
    cluster = await discovery.attach(uri)
    return cluster, await _owner(uri), await sight.of(cluster)


async def _owner(uri: Uri) -> str:
    """In words, for people: a cluster that is not whole can be looked at all the same."""
    try:
        async with ownership.asked(uri.hosts, patience=0) as through:
            marker = await ownership.read(through)
    except Refused as error:
        return f"unknown ({error})"
    return "none: it is not ours to break" if marker is None else str(marker)


def _document(
    cluster: AttachedCluster, uri: Uri, name: str | None, owner: str, views: list[sight.View]
) -> dict[str, Any]:
    return {
        "name": name or cluster.name,
        "identity": cluster.name,
        "uri": str(uri),
        "owner": owner,
        "server": dataclasses.asdict(cluster.server),
        "router": cluster.router,
        "members": [one.plain() for one in views],
    }


def adopt(
    uri: str = Address,
    uri_file: Path = File,
    name: str = typer.Option(None, "--name", help="What it is called here; else what it calls itself."),
) -> None:
    """Let runs and faults break a cluster that somebody else made; asks for its name to be typed."""
    where = needed(uri, uri_file)
    if not sys.stdin.isatty():
        raise Refused("adopt asks for the cluster's name to be typed by a person: start it from a terminal")
    cluster = _run(discovery.attach(where))
    _run(_unowned(where))
    say(f"{where} is {cluster.name}: {cluster.server.version}, router {cluster.server.router}, with")
    for member in cluster.members.values():
        say(f"    {member.name} at {member.host}")
    say("Once adopted, runs write to it, reconfigure it and break its members, as often as they are started.")
    say(f"Type its name, {cluster.name}, to adopt it:")
    typed = sys.stdin.readline().strip()
    if typed != cluster.name:
        raise Refused(f"{typed!r} is not {cluster.name!r}: not adopted, nothing was written")
    record = _run(adopted.adopt(cluster, where, name or cluster.name))
    say(f"cluster {record.name} is adopted: mongofault release {record.name} lets go of it")


async def _unowned(uri: Uri) -> None:
    async with ownership.asked(uri.hosts) as through:
        marker = await ownership.read(through)
    if marker is not None:
        raise Refused(
            f"the cluster at {','.join(uri.hosts)} bears the marker of {marker}: "
            f"it has an owner already (if nobody uses it any more: {ownership.BY_HAND})"
        )


def release(
    cluster: str = typer.Argument(None, metavar="NAME|URI", show_default=False, help="The adopted cluster."),
    uri_file: Path = File,
    forget: bool = typer.Option(False, "--forget", help="Drop the record alone, where the cluster is gone for good."),
) -> None:
    """Let go of an adopted cluster: its marker and its record are removed."""
    if cluster is not None and "://" not in cluster:
        name, where = cluster, None if uri_file is None else needed(None, uri_file)
    else:
        where = needed(cluster, uri_file)
        name = _run(adopted.named(where))
    _run(adopted.release(name, where, forget=forget))
    say(f"cluster {name} is released")


def status_of(name: str, *, json: bool) -> None:
    """`status` of an adopted cluster."""
    show(adopted.uri_of(adopted.read(name)), name, json=json)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(interruptible(work))
