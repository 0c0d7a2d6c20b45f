"""The local provider: a cluster as processes on this machine, all on 127.0.0.1, in about two seconds.

Order matters here: the guardian first, then what is about to exist goes into the ledger, then it is made.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.common import MIN_SUPPORTED_SERVER_VERSION
from pymongo.errors import PyMongoError

from clusters import admin, commandline, memory, ports, quirks, ready, shaping
from clusters.binaries import Binary, find_mongod, find_mongos
from clusters.cluster import ServerInfo
from clusters.errors import ClusterError, MemberDied, Refused
from clusters.guard import (
    Guardian,
    GuardianFailed,
    KillProcess,
    Ledger,
    LedgerError,
    NameTaken,
    Opening,
    RemoveDirectory,
    entrust,
    ledger_directory,
    make_directory,
    new_path,
    new_token,
    undo_until_done,
)
from clusters.guard.undo import Undo
from clusters.liveness import while_all_live
from clusters.member import LocalMember, LocalProcess, reap
from clusters.topology import ROUTER, MemberSpec, Topology
from clusters.wire import access
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed

READY_DEADLINE = 120.0
"""Seconds for the whole bring-up; a burdened machine needs ten times the usual two."""
TEAR_DOWN_DEADLINE = 60.0
PORT_TRIES = 4
PROXY = "proxy"
STAND_IN_VERSIONS = ((4, 4), (6, 0))
"""The first and the last line whose shards the stand-in knows how to talk to."""


class LocalCluster:
    """A cluster of local processes (see `clusters.cluster.Cluster`), whoever is to remove it."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        *,
        members: Sequence[LocalMember],
        router_process: LocalMember | None,
        router: str | None,
        server: ServerInfo,
        directory: Path,
        proxy: LocalProcess | None = None,
    ) -> None:
        self.name = name
        self.topology = topology
        self.router = router
        self.router_process = router_process
        self.server = server
        self.directory = directory
        self.proxy = proxy
        """Through which all connections go, where the cluster was brought up so; its `host` is the control address."""
        self._members = {member.name: member for member in members}
        self.uri = uri_of(topology, router, [member.host for member in members])

    @property
    def members(self) -> Mapping[str, LocalMember]:
        return self._members

    @property
    def processes(self) -> list[LocalProcess]:
        others = (one for one in (self.router_process, self.proxy) if one is not None)
        return [*self._members.values(), *others]

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(self.uri, **options)


class OwnCluster(LocalCluster):
    """A cluster that this process brought up: it holds the ledger that tells how to remove it, and its guardian."""

    def __init__(self, *args: Any, ledger: Ledger, guardian: Guardian, **more: Any) -> None:
        super().__init__(*args, **more)
        self.ledger = ledger
        self.guardian = guardian

    async def down(self) -> None:
        """Remove every process, and every file. Raises ClusterError naming what could not be removed."""
        await take_down(self.ledger, self.guardian)
        addresses = {address for process in self.processes for address in (process.host, process.listens)}
        ports.give_back(_port(address) for address in addresses)

    def keep(self) -> None:
        """From now on the cluster outlives this process; `mongofault down` removes it."""
        self.ledger.keep()
        self.guardian.dismiss()
        self.ledger.release()


def uri_of(topology: Topology, router: str | None, hosts: Sequence[str]) -> str:
    """How an application connects."""
    if router is not None:
        return f"mongodb://{router}/"
    return f"mongodb://{','.join(hosts)}/?replicaSet={topology.shards[0].name}"


async def bring_up(topology: Topology, name: str, *, seed: int = 0, proxied: bool = False) -> OwnCluster:
    """A cluster, Ready: see `clusters.ready`. It goes when this process goes, unless `keep` is called.

    `proxied`: a proxy stands before every member and the router, and its addresses are those everybody knows.

    Raises Refused where nothing was started (no binary, no memory, the name is taken) and ClusterError where the
    bring-up failed and everything was removed again; the message holds the last log lines of the member that ended.
    """
    asked = topology.settings.server_version
    mongod, mongos = find_mongod(asked), find_mongos(asked)
    if topology.router_host is not None and mongos is not None:
        topology = shaping.without_router_host(topology)
    check_version(
        topology,
        mongod.version,
        has_mongos=mongos is not None,
        otherwise="put one of the same version into MONGODB_BINARIES",
    )
    memory.check(topology)
    for tries_left in reversed(range(PORT_TRIES)):
        ledger, guardian = open_ledger(name)
        chosen: list[int] = []
        try:
            count = 1 + sum(1 for _ in topology.members())
            chosen = ports.choose(2 * count + 1 if proxied else count)
            async with asyncio.timeout(READY_DEADLINE):
                return await _Attempt(topology, name, chosen, ledger, guardian, mongod, mongos, seed).run()
        except BaseException as error:
            await take_down(ledger, guardian)
            ports.give_back(chosen)
            if isinstance(error, TimeoutError):
                raise ClusterError(f"the cluster was not Ready within {READY_DEADLINE:g} s") from error
            # Another process may take one of the chosen ports first: choose others.
            if not (isinstance(error, MemberDied) and ports.was_lost(error) and tries_left):
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def check_version(topology: Topology, version: str, *, has_mongos: bool, otherwise: str) -> None:
    """Raises Refused where neither drivers nor the stand-in talk to such servers; `otherwise`: where a mongos may come
    from."""
    major = quirks.major_of(version)
    if topology.sharded and not quirks.of_line(major).drivers:
        raise Refused(
            f"mongod {version} is for raw wire only, and so for a replica set (--replica-set): pymongo needs "
            f"{MIN_SUPPORTED_SERVER_VERSION} or later"
        )
    first, last = STAND_IN_VERSIONS
    if topology.sharded and not has_mongos and not first <= major <= last:
        raise Refused(
            f"no mongos found for mongod {version}: {otherwise} (the stand-in router drives mongod 4.4 to 6.0 alone)"
        )


def server_info(topology: Topology) -> ServerInfo:
    """What server a cluster of this topology will be, with the binaries there are. Raises Refused."""
    asked = topology.settings.server_version
    mongod, mongos = find_mongod(asked), find_mongos(asked)
    return info_of(topology, mongod.version, mongod.git_version, has_mongos=mongos is not None)


def info_of(topology: Topology, version: str, git_version: str, *, has_mongos: bool) -> ServerInfo:
    """The same of servers that are known."""
    settings = topology.settings
    return ServerInfo(
        version=version,
        git_version=git_version,
        router="none" if not topology.sharded else "mongos" if has_mongos else "stand-in",
        parameters={
            **commandline.PARAMETERS,
            **settings.parameters,
            "heartbeatIntervalMillis": str(settings.heartbeat_ms),
            "electionTimeoutMillis": str(settings.election_timeout_ms),
            "chainingAllowed": str(settings.chaining_allowed).lower(),
        },
    )


def open_ledger(
    name: str, *, on: Ledger | None = None, addresses: Mapping[str, str] | None = None
) -> tuple[Ledger, Guardian]:
    """A new ledger and the guardian that watches over it; `on` the ledger of the kept cluster that is to be broken.

    `addresses`: where the cluster's hosts are reached that its own records will name. Raises Refused, ClusterError.
    """
    try:
        ledger = Ledger.create(ledger_directory(name), on=on, addresses=addresses)
    except (NameTaken, ValueError) as error:
        raise Refused(str(error)) from None
    except LedgerError as error:
        raise Refused(f"{error}; set MONGOFAULT_STATE to a directory of yours") from None
    try:
        return ledger, Guardian.start(ledger)
    except BaseException as error:
        ledger.remove(whatever_is_open=True)
        if isinstance(error, GuardianFailed):
            raise ClusterError(str(error)) from None
        raise


async def take_down(ledger: Ledger, guardian: Guardian | None) -> None:
    """Undo all that the ledger holds, shielded from cancellation: half a removal is the worst of all outcomes."""

    def undo() -> None:
        report = undo_until_done(ledger, TEAR_DOWN_DEADLINE, everything=True)
        reap()
        if report.failed:
            # The guardian is not dismissed: when this process has ended it tries again.
            raise ClusterError("could not be removed: " + "; ".join(str(failure) for failure in report.failed))
        if guardian is not None:
            guardian.dismiss()

    undoing = asyncio.ensure_future(asyncio.to_thread(undo))
    try:
        await asyncio.shield(undoing)
    except asyncio.CancelledError:
        # The thread goes on in any case; what it could not undo must not be lost with the cancellation.
        await undoing
        raise


def spawn(processes: Sequence[LocalProcess], ledger: Ledger) -> None:
    """Spawn all, between two writes of the ledger: the tokens before, who they are after."""
    records = ledger.open_many([Opening(KillProcess(None, one.token), title=one.name) for one in processes])
    spawned: dict[int, Undo] = {}
    try:
        for record, one in zip(records, processes, strict=True):
            spawned[record] = KillProcess(one.spawn(), one.token)
    finally:
        ledger.update_many(spawned)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


class _Attempt:
    """One try to bring a cluster up on one choice of ports: one for each server, or also one for each before it, and
    the proxy's own."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        chosen: Sequence[int],
        ledger: Ledger,
        guardian: Guardian,
        mongod: Binary,
        mongos: Binary | None,
        seed: int,
    ) -> None:
        self.topology, self.name, self.ledger, self.guardian, self.seed = topology, name, ledger, guardian, seed
        self.mongod, self.mongos = mongod, mongos
        self.specs = list(topology.members())
        names = [ROUTER.name, *(spec.name for spec in self.specs)]
        addresses = [f"127.0.0.1:{port}" for port in chosen]
        self.listens = dict(zip(names, addresses, strict=False))
        before = addresses[len(names) :]
        self.hosts = dict(zip(names, before, strict=False)) if before else self.listens
        self.control = before[-1] if before else None
        # Somebody else's cluster may have listened there before, to whom one had to say who one is.
        access.grant(addresses, access.OPEN)
        entrust(addresses, {})

    async def run(self) -> OwnCluster:
        directory = new_path(Path(tempfile.gettempdir()), f"mongofault-{self.name}-")
        self.ledger.open(RemoveDirectory(str(directory)), title=f"data of {self.name}")
        make_directory(directory)
        members = [self._member(spec, directory) for spec in self.specs]
        router_process = self._router(directory) if self.topology.sharded else None
        proxy = self._proxy(directory) if self.control is not None else None
        processes: list[LocalProcess] = [*members, *(one for one in (router_process, proxy) if one is not None)]
        spawn(processes, self.ledger)
        cluster = OwnCluster(
            self.name,
            self.topology,
            members=members,
            router_process=router_process,
            router=router_process.host if router_process else None,
            server=server_info(self.topology),
            directory=directory,
            proxy=proxy,
            ledger=self.ledger,
            guardian=self.guardian,
        )

        async def make_ready() -> None:
            try:
                if proxy is not None:
                    (await admin.connect(proxy.host, deadline=READY_DEADLINE)).close()
                await shaping.shape(self.topology, {spec.name: self.hosts[spec.name] for spec in self.specs})
                await ready.wait(cluster, self.ledger.id, deadline=READY_DEADLINE)
            except (CommandFailed, ConnectionLost, DeadlinePassed, PyMongoError) as error:
                raise ClusterError(f"bring-up failed: {error}") from error

        await while_all_live(make_ready(), processes)
        return cluster

    def _member(self, spec: MemberSpec, directory: Path) -> LocalMember:
        data = directory / spec.name
        data.mkdir()
        command = commandline.mongod(
            self.mongod.path,
            spec,
            self.topology.settings,
            port=_port(self.listens[spec.name]),
            data=data,
            log=commandline.log_path(data),
        )
        fail_points = commandline.BRING_UP_FAIL_POINTS if self.mongod.quirks.bring_up_fail_points else {}
        return LocalMember(
            spec,
            self.hosts[spec.name],
            command,
            commandline.log_path(data),
            new_token(),
            at_first=commandline.with_fail_points(fail_points),
            listens=self.listens[spec.name],
        )

    def _router(self, directory: Path) -> LocalMember:
        config = shaping.connection_string(self.topology, self.hosts)
        log = directory / "router.log"
        listens = self.listens[ROUTER.name]
        if self.mongos is not None:
            command = commandline.mongos(self.mongos.path, port=_port(listens), config=config, log=log)
        else:
            assert self.topology.router_host is not None
            router_host = self.hosts[self.topology.router_host.members[0].name]
            command = commandline.stand_in(
                port=_port(listens),
                config=config,
                router_host=router_host,
                seed=self.seed,
                server=self.mongod.version,
            )
        return LocalMember(ROUTER, self.hosts[ROUTER.name], command, log, new_token(), listens=listens)

    def _proxy(self, directory: Path) -> LocalProcess:
        """A link for each member, and one for the router, called as they are."""
        assert self.control is not None
        names = [name for name in self.hosts if name != ROUTER.name or self.topology.sharded]
        links = {name: (self.hosts[name], self.listens[name]) for name in names}
        peers = {self.listens[name]: name for name in names}
        command = commandline.proxy(control=self.control, links=links, peers=peers)
        return LocalProcess(PROXY, self.control, command, directory / "proxy.log", new_token())
