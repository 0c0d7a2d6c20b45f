"""The Compose provider: a cluster as containers on a network of their own, all published on 127.0.0.1.

As with local processes: the guardian first, then what is about to exist goes into the ledger, then Compose makes it.
Inside, members have names that no other cluster has (`shard0-0.mine`); from here they are reached where published.
With a proxy before them they are known, inside and outside, by where it listens on the bridge of their network.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from clusters import memory, ports, shaping
from clusters.compose import command, networks, render
from clusters.compose.attempt import Attempt
from clusters.compose.cluster import OwnComposeCluster
from clusters.compose.contents import Contents
from clusters.errors import ClusterError, MemberDied, Refused
from clusters.guard import Ledger
from clusters.local import READY_DEADLINE, check_version, open_ledger, take_down
from clusters.topology import ROUTER, Topology

TRIES: Final = 4
LONGEST_HOST: Final = 63
"""Characters of a host's name (hostname(7)), that of the member included."""
HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*")
MOST_MEMBERS: Final = 240
"""As many addresses as the members' network has for them."""
TAKEN: Final = ("already allocated", "already in use", "overlaps with other", "invalid pool request")
"""What the engine says where somebody else was faster with a port or with a network."""


async def bring_up(
    topology: Topology, name: str, inside: Contents, *, seed: int = 0, proxied: bool = False
) -> OwnComposeCluster:
    """A cluster, Ready: see `clusters.ready`. It goes when this process goes, unless `keep` is called.

    `inside`: its image (see `contents.of`); one without a mongos gets the stand-in router, as a process of this
    machine. `proxied`: a proxy, another such process, stands before every member and the router. Raises Refused where
    nothing was started, ClusterError where the bring-up failed and everything was removed again.
    """
    await asyncio.to_thread(command.command)
    topology = _for_image(topology, inside)
    _check(topology, name)
    memory.check(topology)
    for tries_left in reversed(range(TRIES)):
        nodes = [*(spec.name for spec in topology.members()), *([ROUTER.name] if topology.sharded else [])]
        chosen = ports.choose(2 * len(nodes) + 1 if proxied else len(nodes))
        ledger: Ledger | None = None
        try:
            attempt = Attempt(
                topology, name, nodes, chosen, await asyncio.to_thread(networks.free_prefix), inside, seed
            )
            ledger, guardian = open_ledger(name, addresses=attempt.addresses)
            async with asyncio.timeout(READY_DEADLINE):
                return await attempt.run(ledger, guardian)
        except BaseException as error:
            if ledger is not None:
                await take_down(ledger, guardian)
            ports.give_back(chosen)
            if isinstance(error, TimeoutError):
                raise ClusterError(f"the cluster was not Ready within {READY_DEADLINE:g} s") from error
            lost = isinstance(error, MemberDied) and ports.was_lost(error)
            taken = isinstance(error, ClusterError) and any(one in str(error) for one in TAKEN)
            if not ((lost or taken) and tries_left):
                raise
    raise AssertionError("unreachable: the last try returns or raises")


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
