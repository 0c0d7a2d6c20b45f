"""The Compose provider: a cluster as containers on a network of their own, all published on 127.0.0.1.

As with local processes: the guardian first, then what is about to exist goes into the ledger, then Compose makes it.
Inside, members have names that no other cluster has (`shard0-0.mine`); from here they are reached where published.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pymongo.errors import PyMongoError

from clusters import admin, commandline, memory, ports, quirks, ready, shaping
from clusters.cluster import ServerInfo
from clusters.compose import command, engine, render
from clusters.compose.cluster import OwnComposeCluster
from clusters.compose.container import ContainerMember
from clusters.compose.contents import Contents
from clusters.errors import ClusterError, Refused
from clusters.guard import (
    TOKEN_VARIABLE,
    Guardian,
    KillProcess,
    Ledger,
    RemoveContainers,
    RemoveDirectory,
    entrust,
    make_directory,
    new_path,
    new_token,
)
from clusters.liveness import together, while_all_live
from clusters.local import READY_DEADLINE, check_version, info_of, open_ledger, take_down
from clusters.member import LocalMember
from clusters.topology import ROUTER, Topology
from clusters.wire import access, addresses
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed

TRIES: Final = 4
FILE: Final = "compose.yml"
LONGEST_HOST: Final = 63
"""Characters of a host's name (hostname(7)), that of the member included."""
HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*")
MOST_MEMBERS: Final = 240
"""As many addresses as the members' network has for them."""
OUR_NETWORKS: Final = ipaddress.IPv4Network("10.160.0.0/11")
"""From which networks are taken, 256 addresses each; the engine takes its own from elsewhere."""
TAKEN: Final = ("already allocated", "already in use", "overlaps with other", "invalid pool request")
"""What the engine says where somebody else was faster with a port or with a network."""
LISTEN_DEADLINE: Final = 60.0


async def bring_up(topology: Topology, name: str, inside: Contents, *, seed: int = 0) -> OwnComposeCluster:
    """A cluster, Ready: see `clusters.ready`. It goes when this process goes, unless `keep` is called.

    `inside`: its image (see `contents.of`); one without a mongos gets the stand-in router, as a process of this
    machine. Raises Refused where nothing was started, ClusterError where the bring-up failed and everything was removed
    again.
    """
    await asyncio.to_thread(command.command)
    topology = _for_image(topology, inside)
    _check(topology, name)
    memory.check(topology)
    for tries_left in reversed(range(TRIES)):
        members = [spec.name for spec in topology.members()]
        published = [*members, *([ROUTER.name] if topology.sharded else [])]
        chosen = dict(zip(published, ports.choose(len(published)), strict=True))
        ledger: Ledger | None = None
        try:
            attempt = _Attempt(topology, name, chosen, await asyncio.to_thread(free_prefix), inside, seed)
            ledger, guardian = open_ledger(name, addresses=attempt.addresses)
            async with asyncio.timeout(READY_DEADLINE):
                return await attempt.run(ledger, guardian)
        except BaseException as error:
            if ledger is not None:
                await take_down(ledger, guardian)
            ports.give_back(chosen.values())
            if isinstance(error, TimeoutError):
                raise ClusterError(f"the cluster was not Ready within {READY_DEADLINE:g} s") from error
            if not (isinstance(error, ClusterError) and any(one in str(error) for one in TAKEN) and tries_left):
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def server_info(topology: Topology, inside: Contents) -> ServerInfo:
    """What server a cluster of this topology will be."""
    return info_of(topology, inside.version, inside.git_version, has_mongos=inside.has_mongos)


def free_prefix() -> str:
    """The first three numbers of a network that no other of the engine's, and no route of this machine, overlaps.

    Another process may take it before it is used: the engine refuses it then. Raises Refused.
    """
    taken = [ipaddress.ip_network(one) for one in [*engine.subnets(), *_routes()]]
    candidates = list(OUR_NETWORKS.subnets(new_prefix=24))
    random.SystemRandom().shuffle(candidates)
    for one in candidates:
        if not any(one.version == other.version and one.overlaps(other) for other in taken):
            return str(one.network_address).rpartition(".")[0]
    raise Refused(f"every network of {OUR_NETWORKS} is taken: remove some (docker network ls)")


def _routes() -> list[str]:
    """The destinations of this machine's routes, without the default one (proc(5): hexadecimal, little-endian)."""
    try:
        lines = Path("/proc/net/route").read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for fields in map(str.split, lines):
        destination, mask = (ipaddress.ip_address(int.from_bytes(bytes.fromhex(fields[at]), "little")) for at in (1, 7))
        if int(mask):
            found.append(f"{destination}/{mask}")
    return found


def _for_image(topology: Topology, inside: Contents) -> Topology:
    """Raises Refused where the image has no router and none can stand in."""
    if topology.router_host is not None and inside.has_mongos:
        return shaping.without_router_host(topology)
    check_version(
        topology,
        inside.version,
        has_mongos=inside.has_mongos,
        otherwise=f"use an image that has both, not {inside.image}",
    )
    return topology


def _check(topology: Topology, name: str) -> None:
    """Raises Refused where the network would have no place, or no name, for every member."""
    specs = list(topology.members())
    if len(specs) > MOST_MEMBERS:
        raise Refused(f"{len(specs)} members: a network of containers has addresses for {MOST_MEMBERS}")
    longest = max((render.host_name(spec.name, name) for spec in specs), key=len)
    if not HOST_NAME.fullmatch(name) or len(longest) > LONGEST_HOST:
        raise Refused(
            f"name {name!r}: hosts would be called {longest}; expected letters, digits, '-' and '_' "
            f"between letters or digits, and {LONGEST_HOST} characters in all"
        )


class _Attempt:
    """One try to bring a cluster up, on one choice of ports (by member, and router) and of a network."""

    def __init__(
        self, topology: Topology, name: str, chosen: Mapping[str, int], prefix: str, inside: Contents, seed: int
    ) -> None:
        self.topology, self.name, self.chosen, self.prefix = topology, name, chosen, prefix
        self.inside, self.seed = inside, seed
        self.hosts = render.hosts(topology, name=name, prefix=prefix)
        self.listens = {one: f"127.0.0.1:{port}" for one, port in chosen.items()}
        self.addresses = {host: self.listens[one] for one, host in self.hosts.items()}
        self.token = new_token()
        slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
        self.project = f"mongofault-{slug}-{self.token[:8]}"

    async def run(self, ledger: Ledger, guardian: Guardian) -> OwnComposeCluster:
        # Somebody else's cluster may have listened there before, to whom one had to say who one is.
        access.grant([*self.hosts.values(), *self.listens.values()], access.OPEN)
        entrust([*self.hosts.values(), *self.listens.values()], {})
        addresses.publish(self.addresses)
        directory = new_path(Path(tempfile.gettempdir()), f"mongofault-{self.name}-")
        ledger.open(RemoveDirectory(str(directory)), title=f"data of {self.name}")
        make_directory(directory)
        ledger.open(RemoveContainers(self.token), title=f"containers of {self.name}")
        await self._up(directory, ledger)
        containers = await asyncio.to_thread(self._containers)
        members = {
            spec.name: ContainerMember(
                spec, self.hosts[spec.name], containers[spec.name], listens=self.listens[spec.name]
            )
            for spec in self.topology.members()
        }
        cluster = OwnComposeCluster(
            name=self.name,
            topology=self.topology,
            members=members,
            router_process=self._router(directory, containers, ledger) if self.topology.sharded else None,
            server=server_info(self.topology, self.inside),
            directory=directory,
            ledger=ledger,
            guardian=guardian,
        )
        await while_all_live(self._make_ready(cluster), cluster.processes)
        return cluster

    async def _up(self, directory: Path, ledger: Ledger) -> None:
        document = render.compose(
            self.topology,
            name=self.name,
            token=self.token,
            image=self.inside.image,
            routers=1,
            ports=self.chosen,
            prefix=self.prefix,
        )
        file = directory / FILE
        file.write_text(render.dump(document, heading=f"cluster {self.name}"))
        compose_token = new_token()
        record = ledger.open(KillProcess(None, compose_token), title="what brings the containers up")
        await command.up(file, self.project, {TOKEN_VARIABLE: compose_token})
        ledger.close(record)

    def _containers(self) -> dict[str, str]:
        """The id of each, by the member in it."""
        return {one["Labels"][render.MEMBER]: one["Id"] for one in engine.bearing(self.token, "container")}

    def _router(self, directory: Path, containers: Mapping[str, str], ledger: Ledger) -> LocalMember | ContainerMember:
        listens = self.listens[ROUTER.name]
        if self.topology.router_host is None:
            return ContainerMember(ROUTER, listens, containers[ROUTER.name], listens=listens)
        arguments = commandline.stand_in(
            port=self.chosen[ROUTER.name],
            config=shaping.connection_string(self.topology, self.hosts),
            router_host=self.hosts[self.topology.router_host.members[0].name],
            seed=self.seed,
            server=self.inside.version,
            addresses=self.addresses,
        )
        router = LocalMember(ROUTER, listens, arguments, directory / "router.log", new_token())
        record = ledger.open(KillProcess(None, router.token), title=router.name)
        ledger.update(record, KillProcess(router.spawn(), router.token))
        return router

    async def _make_ready(self, cluster: OwnComposeCluster) -> None:
        try:
            if quirks.of_line(self.inside.major).bring_up_fail_points:
                await together(*(_hurry(host) for host in self.hosts.values()))
            await shaping.shape(self.topology, self.hosts)
            await ready.wait(cluster, cluster.ledger.id, deadline=READY_DEADLINE)
        except (CommandFailed, ConnectionLost, DeadlinePassed, PyMongoError) as error:
            raise ClusterError(f"bring-up failed: {error}") from error


async def _hurry(host: str) -> None:
    """What local members are started with, so that they do so in their first life alone; off again once Ready."""
    connection = await admin.connect(host, deadline=LISTEN_DEADLINE)
    try:
        for name, data in commandline.BRING_UP_FAIL_POINTS.items():
            switch = {"configureFailPoint": name, "mode": "alwaysOn", "data": data}
            await connection.command("admin", switch, deadline=LISTEN_DEADLINE)
    finally:
        connection.close()
