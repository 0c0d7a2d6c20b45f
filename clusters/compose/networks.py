"""Networks for clusters of containers: one that nobody has yet, and whether this machine is on those of the engine."""

from __future__ import annotations

import ipaddress
import random
import socket
from pathlib import Path
from typing import Final

from clusters.compose import engine
from clusters.errors import Refused

OUR_NETWORKS: Final = ipaddress.IPv4Network("10.160.0.0/11")
"""From which networks are taken, 256 addresses each; the engine takes its own from elsewhere."""


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


def require_bridges() -> None:
    """Raises Refused where the engine's bridges are not on this machine, so that nobody here could listen on one."""
    engine.require()
    try:
        known = engine.gateways()
    except engine.EngineFailed as error:
        raise Refused(str(error)) from None
    if known and not any(map(_ours, known)):
        raise Refused(
            f"a proxy before containers listens on a bridge of this machine, and those of the engine ({known[0]}) are "
            "elsewhere: expected an engine that runs here, or --provider local"
        )


def _ours(address: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True
