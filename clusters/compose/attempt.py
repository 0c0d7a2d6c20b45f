"""One try to bring a cluster of containers up: which ports and which network, then processes, containers, sets."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pymongo.errors import PyMongoError

from clusters import admin, commandline, quirks, ready, shaping
from clusters.compose import command, engine, render
from clusters.compose.cluster import OwnComposeCluster
from clusters.compose.container import ContainerMember
from clusters.compose.contents import Contents
from clusters.errors import ClusterError
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
from clusters.liveness import while_all_live
from clusters.local import PROXY, READY_DEADLINE, spawn
from clusters.member import LocalMember, LocalProcess
from clusters.topology import ROUTER, Topology
from clusters.wire import access, addresses
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed

FILE: Final = "compose.yml"


class Attempt:
    """One try to bring a cluster up, on one choice of a network and of ports of this machine: one for each node, or
    also one for each before it, and the proxy's own."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        nodes: Sequence[str],
        chosen: Sequence[int],
        prefix: str,
        inside: Contents,
        seed: int,
    ) -> None:
        self.topology, self.name, self.prefix, self.inside, self.seed = topology, name, prefix, inside, seed
        self.published = dict(zip(nodes, chosen, strict=False))
        self.listens = {node: f"127.0.0.1:{port}" for node, port in self.published.items()}
        before = dict(zip(nodes, chosen[len(nodes) :], strict=False))
        self.control = f"127.0.0.1:{chosen[-1]}" if before else None
        # Members and drivers alike reach this machine by its address on the members' network; who listens there need
        # not be shown to others.
        place = {node: "127.0.0.1" if node == ROUTER.name else render.gateway(prefix) for node in before}
        self.hosts = {node: f"{place[node]}:{port}" for node, port in before.items()} or render.hosts(
            topology, name=name, prefix=prefix
        )
        self.addresses = {} if before else {host: self.listens[one] for one, host in self.hosts.items()}
        self.token = new_token()
        slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
        self.project = f"mongofault-{slug}-{self.token[:8]}"

    async def run(self, ledger: Ledger, guardian: Guardian) -> OwnComposeCluster:
        # Somebody else's cluster may have listened there before, to whom one had to say who one is.
        everywhere = [*self.hosts.values(), *self.listens.values(), *([self.control] if self.control else [])]
        access.grant(everywhere, access.OPEN)
        entrust(everywhere, {})
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
        router = self._router(directory, containers) if self.topology.sharded else None
        proxy = self._proxy(directory, self.control) if self.control is not None else None
        spawn([one for one in (router, proxy) if isinstance(one, LocalProcess)], ledger)
        cluster = OwnComposeCluster(
            name=self.name,
            topology=self.topology,
            members=members,
            router_process=router,
            server=self.inside.server_info(self.topology),
            directory=directory,
            proxy=proxy,
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
            ports=self.published,
            prefix=self.prefix,
            known=self.hosts,
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

    def _router(self, directory: Path, containers: Mapping[str, str]) -> LocalMember | ContainerMember:
        listens = self.listens[ROUTER.name]
        host = self.hosts.get(ROUTER.name, listens)
        if self.topology.router_host is None:
            return ContainerMember(ROUTER, host, containers[ROUTER.name], listens=listens)
        arguments = commandline.stand_in(
            port=self.published[ROUTER.name],
            config=shaping.connection_string(self.topology, self.hosts),
            router_host=self.hosts[self.topology.router_host.members[0].name],
            seed=self.seed,
            server=self.inside.version,
            addresses=self.addresses,
        )
        return LocalMember(ROUTER, host, arguments, directory / "router.log", new_token(), listens=listens)

    def _proxy(self, directory: Path, control: str) -> LocalProcess:
        """A link for each member, and one for the router. To members by their own addresses, as nothing is then in
        between that would have to be published anew when a container is taken off its network."""
        fixed = render.addresses(self.topology, prefix=self.prefix)
        targets = {**self.listens, **{one: f"{address}:{render.PORT}" for one, address in fixed.items()}}
        links = {node: (self.hosts[node], targets[node]) for node in self.listens}
        # Servers say their host's name and their own port; a probe that stands for one says where it is published.
        peers = {f"{render.host_name(node, self.name)}:{render.PORT}": node for node in links}
        peers |= {listens: node for node, listens in self.listens.items()}
        command = commandline.proxy(control=control, links=links, peers=peers)
        return LocalProcess(PROXY, control, command, directory / "proxy.log", new_token())

    async def _make_ready(self, cluster: OwnComposeCluster) -> None:
        # Local members are started with these, so that they have them in their first life alone; off again once Ready.
        fail_points = commandline.BRING_UP_FAIL_POINTS if quirks.of_line(self.inside.major).bring_up_fail_points else {}
        try:
            if cluster.proxy is not None:
                (await admin.connect(cluster.proxy.host, deadline=READY_DEADLINE)).close()
            hosts = {name: member.host for name, member in cluster.members.items()}
            await shaping.shape(self.topology, hosts, fail_points=fail_points)
            await ready.wait(cluster, cluster.ledger.id, deadline=READY_DEADLINE)
        except (CommandFailed, ConnectionLost, DeadlinePassed, PyMongoError) as error:
            raise ClusterError(f"bring-up failed: {error}") from error
