"""From a topology to a Compose file, as plain data and as text. Pure: starts nothing, asks no engine.

What comes out is usable by Compose 1.29 and by v2 alike: no `name:`, `start_interval` or `configs.content`, which 1.29
rejects; the project's name is given by `-p`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusters import admin, commandline, shaping
from clusters.compose.engine import TOKEN
from clusters.topology import ROUTER, MemberSpec, SetSpec, Topology

if TYPE_CHECKING:
    import yaml

PORT: Final = 27017
"""Where every server listens within its own network namespace."""
DATA: Final = Path("/data/db")
CONFIG_DATA: Final = "/data/configdb"
"""Unused; but the official images declare a volume there, which would stay behind, one for each container."""
IMAGE: Final = "${MONGO_IMAGE:-mongo:8.0}"
PREFIX: Final = "${MONGO_PREFIX:-172.30.77}"
"""The first three numbers of the addresses of a replica set's members, as Compose is to fill them in."""
FIRST_ADDRESS: Final = 11
"""The last number of the first member's address; the gateway has 1."""
EVERYBODY: Final = "0.0.0.0"
STOP_SECONDS: Final = 30
"""A primary that is told to end tells its clients so for 15 s first; Compose would kill it after 10."""

CLUSTER: Final = "mongofault.cluster"

MEMBER: Final = "mongofault.member"
SET: Final = "mongofault.set"
"""A label of a set's first member: the configuration to initiate the set with, as JSON."""

Document = dict[str, Any]


def compose(
    topology: Topology,
    *,
    name: str | None = None,
    token: str | None = None,
    image: str = IMAGE,
    routers: int = 2,
    ports: Mapping[str, int] | None = None,
    prefix: str = PREFIX,
    known: Mapping[str, str] | None = None,
) -> Document:
    """The Compose file of a cluster.

    `name`: of a cluster called so; every host has a name that no other cluster has, and `token` is a label of all that
    is made. Without it: what is checked in, in which hosts are called as the members are. `ports`: where on 127.0.0.1
    a member or router is published, else `PORT_SHARD0_0` and the like say, else the engine chooses. `routers`: how many
    mongos a sharded cluster has; none where its topology has a router host. `prefix`: of members' fixed addresses.
    `known`: the `host:port` by which the sets know each member, where that is not its own (see `hosts`).
    """
    known = known or hosts(topology, name=name, prefix=prefix)
    fixed = {} if topology.sharded and name is None else addresses(topology, prefix=prefix)
    # Otherwise each look-up of a name asks the engine, which takes seconds for it when the machine is busy.
    by_name = {} if name is None else {"extra_hosts": [f"{host_name(one, name)}:{at}" for one, at in fixed.items()]}
    ports = ports or {}
    labels = {key: value for key, value in ((CLUSTER, name), (TOKEN, token)) if value is not None}
    services: Document = {}
    for one in topology.sets():
        for index, spec in enumerate(one.members):
            own = {MEMBER: spec.name}
            if index == 0:
                own[SET] = json.dumps(configuration(topology, one, known))
            services[spec.name] = {
                **_server(spec.name, name, image, ports.get(spec.name), {**labels, **own}),
                "command": _literal(mongod(spec, topology)),
                "volumes": [f"{spec.name}:{DATA}"],
                **_on_network(spec.name, name, fixed),
                **by_name,
            }
    for router in router_names(topology, routers):
        services[router] = {
            **_server(router, name, image, ports.get(router), {**labels, MEMBER: router}),
            "command": _literal(mongos(topology, known)),
            **_on_network(router, name, fixed),
            **by_name,
        }
    return {
        "services": services,
        "networks": {"default": _network(prefix if fixed else None, labels)},
        "volumes": {spec.name: {"labels": labels} if labels else {} for spec in topology.members()},
    }


def host_name(member: str, name: str | None) -> str:
    """What a member or router is called on the cluster's network."""
    return member if name is None else f"{member}.{name}"


def hosts(topology: Topology, *, name: str | None = None, prefix: str = PREFIX) -> dict[str, str]:
    """`host:port` by which the sets know each member: names where routers stand before them, else addresses.

    Drivers connect to whatever a replica set's `hello` says its members are called.
    """
    specs = list(topology.members())
    if topology.sharded:
        return {spec.name: f"{host_name(spec.name, name)}:{PORT}" for spec in specs}
    return {member: f"{address}:{PORT}" for member, address in addresses(topology, prefix=prefix).items()}


def addresses(topology: Topology, *, prefix: str = PREFIX) -> dict[str, str]:
    """The address of each member where they are fixed: a replica set's, and those that may be taken off their network
    and put back."""
    return {spec.name: f"{prefix}.{FIRST_ADDRESS + index}" for index, spec in enumerate(topology.members())}


def gateway(prefix: str) -> str:
    """This machine's own address on the network of the members, where it is one of this machine."""
    return f"{prefix}.1"


def router_names(topology: Topology, routers: int) -> list[str]:
    """What the routers are called: `router` where there is one, else `router-0`.."""
    if not topology.sharded or topology.router_host is not None:
        return []
    return [ROUTER.name] if routers == 1 else [f"{ROUTER.name}-{index}" for index in range(routers)]


def configuration(topology: Topology, one: SetSpec, known: Mapping[str, str]) -> Document:
    """What a set is initiated with."""
    settings = topology.settings
    return admin.set_config(one, known, settings, heartbeat_ms=settings.heartbeat_ms, version=1)


def mongod(spec: MemberSpec, topology: Topology) -> list[str]:
    return commandline.mongod("mongod", spec, topology.settings, port=PORT, data=DATA, bind_ip=EVERYBODY, log=None)


def mongos(topology: Topology, known: Mapping[str, str]) -> list[str]:
    config = shaping.connection_string(topology, known)
    return commandline.mongos("mongos", port=PORT, config=config, bind_ip=EVERYBODY, log=None)


def dump(document: Document, *, heading: str = "") -> str:
    """The text of a Compose file, `heading` being its first comment."""
    import yaml  # late: most commands render nothing

    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return comment + yaml.dump(_with_flow(document), Dumper=_dumper(), sort_keys=False, width=116, allow_unicode=True)


def _server(member: str, name: str | None, image: str, port: int | None, labels: Mapping[str, str]) -> Document:
    published = str(port) if port is not None else f"${{PORT_{member.upper().replace('-', '_')}:-}}"
    return {
        "image": image,
        "hostname": host_name(member, name),
        "labels": dict(labels),
        "ports": [f"127.0.0.1:{published}:{PORT}"],
        "tmpfs": [CONFIG_DATA],
        "stop_grace_period": f"{STOP_SECONDS}s",
    }


def _on_network(member: str, name: str | None, fixed: Mapping[str, str]) -> Document:
    """What Compose does not do by itself: it calls a service on its network as it is called in the file."""
    network: Document = {} if name is None else {"aliases": [host_name(member, name)]}
    if member in fixed:
        network["ipv4_address"] = fixed[member]
    return {"networks": {"default": network}} if network else {}


def _network(prefix: str | None, labels: Mapping[str, str]) -> Document:
    network: Document = {"driver": "bridge"}
    if prefix is not None:
        network["ipam"] = {"config": [{"subnet": f"{prefix}.0/24"}]}
    return {**network, "labels": dict(labels)} if labels else network


def _literal(command: list[str]) -> list[str]:
    """As Compose is not to fill in anything there."""
    return [one.replace("$", "$$") for one in command]


class _Flow(list[str]):
    """A list of words, written on as few lines as it takes."""


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Without anchors: each service says all of itself."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    Dumper.add_representer(
        _Flow, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
    )
    return Dumper


def _with_flow(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _with_flow(value) for key, value in node.items()}
    if isinstance(node, list):
        return _Flow(node) if all(isinstance(one, str) for one in node) else [_with_flow(one) for one in node]
    return node
