"""Who brings a cluster up: processes of this machine, or containers by Compose. What comes of it is used in one way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from clusters import local
from clusters.cluster import Own, ServerInfo
from clusters.compose import command, contents, engine, networks
from clusters.compose import provider as compose
from clusters.compose.contents import Contents
from clusters.errors import Refused
from clusters.topology import Topology

Provider = Literal["local", "compose", "auto"]


async def bring_up(
    topology: Topology,
    name: str,
    *,
    seed: int = 0,
    proxied: bool = False,
    provider: Provider = "local",
    image: str | None = None,
) -> Own:
    """A cluster, Ready; it goes when this process goes, unless `keep` is called.

    `provider`: `local` processes, containers by `compose`, or `auto`: containers where an engine, a Compose command and
    an image are there. `image` of the containers, else see `contents.local_image`. `proxied`: a proxy stands before
    every node; before containers on a bridge of this machine. Raises Refused where nothing was started, ClusterError.
    """
    settled = await asyncio.to_thread(settle, topology, provider, image, proxied=proxied)
    return await settled.bring_up(topology, name, seed=seed, proxied=proxied)


@dataclass(frozen=True, slots=True)
class Settled:
    """What server a cluster will be, and who brings it up: containers of an image, by what is in that, else processes
    of this machine."""

    server: ServerInfo
    inside: Contents | None = None

    @property
    def provider(self) -> Literal["local", "compose"]:
        return "local" if self.inside is None else "compose"

    @property
    def image(self) -> str | None:
        return None if self.inside is None else self.inside.image

    async def bring_up(self, topology: Topology, name: str, *, seed: int, proxied: bool) -> Own:
        """Of the topology for which it was settled; else as the function of that name."""
        if self.inside is not None:
            return await compose.bring_up(topology, name, self.inside, seed=seed, proxied=proxied)
        return await local.bring_up(topology, name, seed=seed, proxied=proxied)


def settle(topology: Topology, provider: Provider, image: str | None, *, proxied: bool) -> Settled:
    """What a cluster will be. Raises Refused where it cannot be, or not so."""
    if provider == "local" and image is not None:
        raise Refused(f"--image {image}: processes of this machine are of no image; expected --provider compose")
    if provider == "compose" or (provider == "auto" and _possible(image, proxied=proxied)):
        if proxied:
            networks.require_bridges()
        inside = contents.of(image, topology.settings.server_version)
        return Settled(inside.server_info(topology), inside)
    return Settled(local.server_info(topology))


def _possible(image: str | None, *, proxied: bool) -> bool:
    try:
        engine.require()
        command.command()
        if proxied:
            networks.require_bridges()
        return (engine.image(image) is not None) if image is not None else contents.local_image() is not None
    except (Refused, engine.EngineFailed):
        return False
