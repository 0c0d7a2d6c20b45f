"""Clusters that somebody else made and that may be broken all the same: adopted by hand, released by hand.

Written down like a kept cluster, a ledger of its own with a record beside it, but with nothing to remove: its processes
and data stay whatever happens here. The record holds no secret.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from clusters import discovery, kept, ownership
from clusters.attached import AttachedCluster
from clusters.cluster import entrances
from clusters.errors import ClusterError, Refused
from clusters.guard import Ledger, LedgerError, NameTaken, entrust, ledger_directory
from clusters.uri import HOW_ELSE, Uri, parse
from clusters.uri import given as elsewhere
from clusters.wire import access
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed


@dataclass(frozen=True)
class AdoptedRecord:
    """What `adopted.json` holds. `identity` is what the cluster calls itself; `uri` has its secrets taken out."""

    name: str
    identity: str
    uri: str
    hosts: list[str]
    secret: bool
    """Whether the URI had secrets: then it must be given again wherever the cluster is used."""
    created: float


_json = TypeAdapter(AdoptedRecord)


def names() -> list[str]:
    return [name for name in kept.names() if kept.is_adopted(name)]


def read(name: str) -> AdoptedRecord:
    """Raises Refused."""
    try:
        return _json.validate_json((ledger_directory(name) / kept.ADOPTED).read_bytes())
    except (OSError, ValueError):
        raise Refused(
            f"the record of cluster {name!r} is damaged or lost: mongofault release {name} --forget"
        ) from None


def uri_of(record: AdoptedRecord, given: Uri | None = None) -> Uri:
    """The URI of an adopted cluster: the one given, or in MONGODB_URI, where it leads there and secrets are needed,
    else the one in the record. Raises Refused."""
    if given is None and record.secret:
        given = elsewhere(None, None)
    if given is not None and set(given.hosts) & set(record.hosts):
        return given
    if record.secret:
        raise Refused(f"cluster {record.name!r} wants a password, which is written down nowhere: {HOW_ELSE}")
    return parse(record.uri)


async def adopt(cluster: AttachedCluster, uri: Uri, name: str) -> AdoptedRecord:
    """Make it ours: the record first, then the marker, so that no cluster bears a marker of which nobody knows.

    Raises Refused where the name is taken or the cluster bears a marker already; ClusterError.
    """
    hosts = sorted({*uri.hosts, *([cluster.router] if cluster.router else [])})
    record = AdoptedRecord(name, cluster.name, uri.shown, hosts, uri.secret, round(time.time(), 3))
    try:
        ledger = Ledger.create(ledger_directory(name), "kept")
    except (NameTaken, ValueError) as error:
        raise Refused(f"{error} (--name gives it another)") from None
    except LedgerError as error:
        raise Refused(f"{error}; set MONGOFAULT_STATE to a directory of yours") from None
    try:
        (ledger.directory / kept.ADOPTED).write_bytes(_json.dump_json(record, indent=1))
        async with ownership.asked(uri.hosts) as through:
            await ownership.write(through, ownership.new(ledger.id, name, "adopt"))
    except (CommandFailed, ConnectionLost, DeadlinePassed) as error:
        # Whether the marker came to be there is not known where the connection broke.
        with suppress(Refused, CommandFailed, ConnectionLost, DeadlinePassed):
            await _unmark(uri, ledger.id)
        ledger.remove(whatever_is_open=True)
        raise ClusterError(f"the marker could not be written: {error}") from None
    except BaseException:
        ledger.remove(whatever_is_open=True)
        raise
    ledger.release()
    return record


async def release(name: str, given: Uri | None, *, forget: bool) -> None:
    """Take the marker away and the record; with `forget` the record alone. Raises Refused, ClusterError."""
    if not kept.is_adopted(name):
        if name in kept.names():
            raise Refused(f"cluster {name!r} was made by mongofault up: mongofault down {name} removes it")
        kept.read(name)
    ledger = kept.hold(name)
    try:
        if not forget:
            uri = uri_of(read(name), given)
            try:
                await _unmark(uri, ledger.id)
            except (Refused, CommandFailed, ConnectionLost, DeadlinePassed) as error:
                raise ClusterError(
                    f"the marker of {name!r} could not be removed: {error} (--forget drops the record alone)"
                ) from None
        ledger.remove(whatever_is_open=True)
    finally:
        ledger.release()


async def _unmark(uri: Uri, ledger_id: str) -> None:
    access.grant(uri.hosts, uri.access)
    async with ownership.asked(uri.hosts) as through:
        await ownership.remove(through, ledger_id)


async def load(name: str, uri: Uri) -> AttachedCluster:
    """An adopted cluster as it is now, under the name of its record. Raises Refused where it is another by now.

    What lets us in is from then on known to whoever heals, guardians started later included.
    """
    record = read(name)
    cluster = await discovery.attach(uri)
    if cluster.name != record.identity:
        raise Refused(f"{uri} leads to {cluster.name} by now, and {record.identity} is what was adopted as {name!r}")
    cluster.name = name
    entrust([*(one.host for one in cluster.members.values()), *entrances(cluster)], cluster.options)
    return cluster


async def let_in(broken: Ledger) -> None:
    """Make sure that what a ledger has open can be undone, where it is on an adopted cluster that wants a password.

    Raises Refused where that is not given again (MONGODB_URI), or nobody answers.
    """
    name = Path((broken.on or {}).get("ledger", "")).name
    if name and kept.is_adopted(name) and (record := read(name)).secret:
        await load(name, uri_of(record))


async def named(uri: Uri) -> str:
    """The name under which a cluster is ours, from its marker; hello and one find are sent. Raises Refused."""
    access.grant(uri.hosts, uri.access)
    marker = await ownership.marker_of(uri.hosts)
    for name in kept.names():
        with suppress(LedgerError):
            if Ledger.load(ledger_directory(name)).id == marker.id:
                return name
    raise Refused(
        f"the cluster at {','.join(uri.hosts)} bears the marker of {marker}, of which nothing is written down here: "
        f"it is not ours to break (if nobody else uses it: {ownership.BY_HAND})"
    )
