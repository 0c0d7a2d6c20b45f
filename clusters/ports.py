"""Free ports on 127.0.0.1, below the range from which the kernel takes ports for outgoing connections.

A listen port inside that range is lost now and then to some other process's outgoing connection: mongod then
ends with exit code 48 (seen five times in one day of bring-ups).
"""

from __future__ import annotations

import random
import socket

from clusters.errors import Refused

LOWEST = 15_000
HIGHEST = 32_700
ADDRESS_IN_USE_EXIT = 48
"""mongod's exit code when it cannot bind its port."""


def free(port: int) -> bool:
    """Whether nobody listens on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose(count: int) -> list[int]:
    """`count` different ports, free at the time of the call. Another process can still win the race for one."""
    chosen: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
        if len(chosen) == count:
            break
        if free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise Refused(
            f"only {len(chosen)} free ports between {LOWEST} and {HIGHEST}, {count} needed: end other servers"
        )
    return chosen
