"""Free ports on 127.0.0.1, below the range from which the kernel takes ports for outgoing connections.

A listen port inside that range is lost now and then to some other process's outgoing connection: mongod then
ends with exit code 48 (seen five times in one day of bring-ups).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from clusters.errors import MemberDied, Refused

LOWEST = 15_000
HIGHEST = 32_700
ADDRESS_IN_USE_EXIT = 48
"""mongod's exit code when it cannot bind its port."""
CANNOT_LISTEN = '"msgid": 31339'
"""What mongod aborts with when it has bound its port and somebody else listens on it first. Between the two lies
0.35 s of its start (6.0.5), in which a second server can bind the same port."""

_leases: dict[int, socket.socket] = {}


def free(port: int) -> bool:
    """Whether nobody listens on this port of 127.0.0.1 now."""
    return _bindable(port, reuse=True)


def choose(count: int) -> list[int]:
    """`count` different ports that nobody has, leased to this process until `give_back` or its end.

    No other process that asks here gets them meanwhile; one that does not can still win the race (`was_lost`).
    Raises Refused when there are not so many.
    """
    chosen: list[int] = []
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
        if len(chosen) == count:
            break
        if _lease(port):
            chosen.append(port)
    if len(chosen) < count:
        give_back(chosen)
        raise Refused(
            f"only {len(chosen)} free ports between {LOWEST} and {HIGHEST}, {count} needed: end other servers"
        )
    return chosen


def give_back(ports: Iterable[int]) -> None:
    """Others may choose these again."""
    for port in ports:
        if lease := _leases.pop(port, None):
            lease.close()


def was_lost(error: MemberDied) -> bool:
    """Whether the process ended because somebody else had its port."""
    return error.exit_code == ADDRESS_IN_USE_EXIT or CANNOT_LISTEN in str(error)


def _lease(port: int) -> bool:
    # A name of an abstract Unix socket belongs to one process, in the network namespace in which the port does too,
    # and is gone with it, however it ends.
    lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lease.bind(f"\0mongofault-port-{port}")
    except OSError:
        lease.close()
        return False
    # Without SO_REUSEADDR: it would let a port pass that is bound and not listened on yet.
    if not _bindable(port, reuse=False):
        lease.close()
        return False
    _leases[port] = lease
    return True


def _bindable(port: int, *, reuse: bool) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
