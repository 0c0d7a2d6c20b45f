"""Clusters that outlive the command that made them: written down beside their ledger, found again by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from clusters.cluster import Own, ServerInfo
from clusters.compose import container, engine
from clusters.compose.cluster import ComposeCluster
from clusters.compose.container import ContainerMember
from clusters.errors import Refused
from clusters.guard import (
    STOPPED,
    Ledger,
    LedgerError,
    LedgerHeld,
    Process,
    find_by_tokens,
    ledger_directory,
    state,
    survey,
)
from clusters.local import PROXY, LocalCluster, take_down, uri_of
from clusters.member import LocalMember, LocalProcess
from clusters.topology import ROUTER, MemberSpec, Topology
from clusters.wire import addresses

FILE = "cluster.json"
ADOPTED = "adopted.json"
"""In its place where the cluster was made by somebody else (see `clusters.adopted`)."""


@dataclass(frozen=True)
class ProcessRecord:
    """A local process: enough to find it again and to start it again."""

    command: list[str]
    log: str
    token: str
    process: Process | None


@dataclass(frozen=True)
class ClusterRecord:
    """What `cluster.json` holds."""

    name: str
    topology: Topology
    hosts: dict[str, str]
    processes: dict[str, ProcessRecord]
    router: str | None
    server: ServerInfo
    directory: str
    created: float
    listens: dict[str, str] | None = None
    """Where members and router listen themselves, where a proxy stands before them or they are containers."""
    containers: dict[str, str] | None = None
    """The ids of the containers, by member or router; None where all are processes."""

    @property
    def uri(self) -> str:
        return uri_of(self.topology, self.router, list(self.hosts.values()))


_json = TypeAdapter(ClusterRecord)


def save(cluster: Own, *, created: float) -> ClusterRecord:
    """Write the cluster down and let it outlive this process."""
    containers = {one.name: one.container for one in cluster.processes if isinstance(one, ContainerMember)}
    record = ClusterRecord(
        name=cluster.name,
        topology=cluster.topology,
        hosts={name: member.host for name, member in cluster.members.items()},
        processes={
            one.name: ProcessRecord(one.command, str(one.log), one.token, one.process)
            for one in cluster.processes
            if isinstance(one, LocalProcess)
        },
        router=cluster.router,
        server=cluster.server,
        directory=str(cluster.directory),
        created=created,
        listens=(
            {one.name: one.listens for one in cluster.processes} if containers or cluster.proxy is not None else None
        ),
        containers=containers or None,
    )
    path = cluster.ledger.directory / FILE
    temporary = path.with_suffix(".new")
    temporary.write_bytes(_json.dump_json(record, indent=1))
    temporary.replace(path)
    cluster.keep()
    return record


def names() -> list[str]:
    """The kept clusters, by name, as their ledgers say: also one whose record is damaged or lost."""
    return sorted(ledger.name for ledger in survey().kept)


def is_adopted(name: str) -> bool:
    """Whether a cluster of this name is written down that somebody else made."""
    try:
        return (ledger_directory(name) / ADOPTED).exists()
    except ValueError:
        return False


def read(name: str) -> ClusterRecord:
    """Raises Refused naming the clusters there are."""
    if is_adopted(name):
        raise Refused(f"cluster {name!r} was adopted: its processes are not ours")
    try:
        return _as_they_are(_json.validate_json((ledger_directory(name) / FILE).read_bytes()))
    except (OSError, ValueError) as error:
        if isinstance(error, ValidationError) or name in names():
            raise Refused(f"the record of cluster {name!r} is damaged or lost: mongofault down {name}") from None
        there = ", ".join(names()) or "none is up"
        raise Refused(f"there is no cluster named {name!r}; clusters: {there} (mongofault up makes one)") from None


def _as_they_are(record: ClusterRecord) -> ClusterRecord:
    """With the processes that were started again since it was written down: they bear the tokens of the old ones."""
    gone = {one.token: name for name, one in record.processes.items() if one.process is None or not state(one.process)}
    for token, found in find_by_tokens(gone).items():
        if found:
            record.processes[gone[token]] = replace(record.processes[gone[token]], process=found[0])
    return record


def load(name: str) -> LocalCluster | ComposeCluster:
    """A kept cluster, to be used and broken; it is not this process's to remove. Raises Refused."""
    record = read(name)
    try:
        return _processes(record) if record.containers is None else _containers(record, record.containers)
    except engine.EngineFailed as error:
        raise Refused(f"cluster {name!r} is made of containers, and no engine can be asked: {error}") from None


def _containers(record: ClusterRecord, containers: Mapping[str, str]) -> ComposeCluster:
    listens = record.listens or {}
    proxy = _proxy(record)
    if proxy is None:
        addresses.publish({host: listens[one] for one, host in record.hosts.items()})

    def member(spec: MemberSpec, host: str) -> ContainerMember:
        return ContainerMember(spec, host, containers[spec.name], listens=listens[spec.name])

    router: LocalMember | ContainerMember | None = None
    if record.router is not None:
        stands_in = ROUTER.name in record.processes
        router = _process(record, ROUTER, record.router) if stands_in else member(ROUTER, record.router)
    return ComposeCluster(
        name=record.name,
        topology=record.topology,
        members={spec.name: member(spec, record.hosts[spec.name]) for spec in record.topology.members()},
        router_process=router,
        server=record.server,
        directory=Path(record.directory),
        proxy=proxy,
    )


def _process(record: ClusterRecord, spec: MemberSpec, host: str) -> LocalMember:
    saved = record.processes[spec.name]
    return LocalMember(
        spec,
        host,
        saved.command,
        Path(saved.log),
        saved.token,
        process=saved.process,
        listens=(record.listens or {}).get(spec.name),
    )


def _proxy(record: ClusterRecord) -> LocalProcess | None:
    if (saved := record.processes.get(PROXY)) is None:
        return None
    listens = (record.listens or {})[PROXY]
    return LocalProcess(PROXY, listens, saved.command, Path(saved.log), saved.token, process=saved.process)


def _processes(record: ClusterRecord) -> LocalCluster:
    members = [_process(record, spec, record.hosts[spec.name]) for spec in record.topology.members()]
    router = None
    if ROUTER.name in record.processes:
        assert record.router is not None
        router = _process(record, ROUTER, record.router)
    return LocalCluster(
        record.name,
        record.topology,
        members=members,
        router_process=router,
        router=record.router,
        server=record.server,
        directory=Path(record.directory),
        proxy=_proxy(record),
    )


def running(record: ClusterRecord) -> dict[str, str]:
    """Each process or container by name: `running`, `frozen` or `gone`; `unknown` where no engine can be asked."""
    words = {name: container.condition(one) for name, one in (record.containers or {}).items()}
    for name, one in record.processes.items():
        letter = state(one.process) if one.process is not None else None
        words[name] = "gone" if letter is None else "frozen" if letter in STOPPED else "running"
    return words


def hold(name: str, *, damaged: bool = False) -> Ledger:
    """The ledger of a kept cluster, held: nobody else breaks the cluster or takes it down until it is released.

    Raises Refused where somebody else holds it, where a run that was killed has not been healed yet, or where not all
    of the ledger can be read, unless it may be `damaged`.
    """
    if name not in names():
        read(name)
    try:
        ledger = Ledger.load(ledger_directory(name)).hold()
    except LedgerHeld:
        raise Refused(f"cluster {name!r} is in use by a run or being taken down: wait for that, or end it") from None
    except LedgerError as error:
        raise Refused(str(error)) from None
    if ledger.damage and not damaged:
        ledger.release()
        raise Refused(f"what is open on cluster {name!r} is not known: {ledger.damage[0]}: mongofault down {name}")
    found = survey()
    for other in [*found.held, *found.abandoned]:
        if other.on is not None and other.on.get("ledger") == str(ledger.directory) and other.open_records():
            ledger.release()
            raise Refused(f"{other.name} broke cluster {name!r} and is not healed yet: wait, or run mongofault heal")
    return ledger


async def down(name: str) -> None:
    """Remove a kept cluster: processes or containers, data, its record. Raises Refused, ClusterError."""
    if is_adopted(name):
        raise Refused(
            f"cluster {name!r} was adopted and is not ours to remove: mongofault release {name} lets go of it"
        )
    await take_down(hold(name, damaged=True), None)


def default_name() -> str:
    """`default`, or what MONGOFAULT_CLUSTER says."""
    return os.environ.get("MONGOFAULT_CLUSTER", "default")
