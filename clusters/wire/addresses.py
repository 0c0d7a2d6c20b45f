"""Where a server is reached from here that others know by another name: a container, by its published port.

Kept in this process's memory: it is said once for a host, and every connection to that host goes there. Whoever is
handed a cluster is told anew; of a host of which nothing was said, the name is the address. Standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping

_known: dict[str, str] = {}


def publish(addresses: Mapping[str, str]) -> None:
    """From now on connections to a host (`name:port`, as its set knows it) are made to its `address:port`."""
    _known.update(addresses)


def of(host: str) -> str:
    """The `address:port` at which a host is reached from here."""
    return _known.get(host, host)
