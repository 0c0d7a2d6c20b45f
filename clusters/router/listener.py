"""The listening socket: takes clients in, and turns away those there is no room for, in one line of the log a burst.

Knows how many files the process may open; what a client is told is not its business.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable
from typing import Final, cast

from clusters.router.server import Client

log = logging.getLogger("mongofault.router")

SHARE: Final = 0.8
"""Of the files the process may open, those for clients; as much as a mongos grants them."""
BACKLOG: Final = 1024
"""Connections that the kernel completes ahead."""
AT_ONCE: Final = 8
"""Connections accepted in a row. What is turned away holds a file until its turn comes; and where accept runs out of
files, asyncio of Python 3.11 logs it as often in a row as this says."""


class Listener:
    """`clients` are those connected; `make` makes another one."""

    def __init__(self, address: str, clients: set[Client], make: Callable[[], Client]) -> None:
        self._address = address
        self._clients = clients
        self._make = make
        self._room = int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * SHARE)
        self._turning_away = False
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises OSError where the address cannot be had."""
        host, _, port = self._address.rpartition(":")
        listening = socket.create_server((host, int(port)))
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accept, sock=listening, backlog=AT_ONCE)
        except BaseException:
            listening.close()
            raise
        # asyncio takes one number for two things.
        listening.listen(BACKLOG)

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    def _accept(self) -> asyncio.BaseProtocol:
        if len(self._clients) >= self._room:
            if not self._turning_away:
                log.warning(
                    "turning away more clients than %d: the rest of the files that this process may open is for"
                    " connections to members; raise its limit (ulimit -n)",
                    self._room,
                )
            self._turning_away = True
            return _TurnedAway()
        self._turning_away = False
        client = self._make()
        # Now, for asyncio connects it only later: a burst would be counted when all of it is in.
        self._clients.add(client)
        return client


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
