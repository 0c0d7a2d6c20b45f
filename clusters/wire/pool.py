"""Pools of connections, one per host: a free one is reused, a new one is dialled when none is free.

No upper bound: a getMore that hangs occupies its connection for as long as it hangs, and must not starve the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters.wire.connection import Connection
from clusters.wire.message import Message

CONNECT_DEADLINE = 10.0
"""Seconds to connect and shake hands."""
IDLE_KEPT = 128
"""Connections kept per host when they are given back; more than this many are closed."""


class Pool:
    """Connections to one host, `internal` as a fellow server (see `Connection.open`)."""

    def __init__(self, host: str, *, internal: bool = False) -> None:
        self.host = host
        self._internal = internal
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for one command or several; it goes back to the pool if it is still usable."""
        connection = await self.acquire()
        try:
            yield connection
        finally:
            self.release(connection)

    async def request(self, raw: bytes, *, deadline: float | None = None) -> Message:
        """One framed message and its reply, on a connection of its own meanwhile (see `Connection.request`)."""
        connection = await self.acquire()
        try:
            return await connection.request(raw, deadline=deadline)
        finally:
            self.release(connection)

    async def acquire(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return await Connection.open(self.host, deadline=CONNECT_DEADLINE, internal=self._internal)

    def release(self, connection: Connection) -> None:
        if connection.usable and not self._closed and len(self._idle) < IDLE_KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class Pools:
    """A pool per host, made when first asked for."""

    def __init__(self, *, internal: bool = False) -> None:
        self._internal = internal
        self._pools: dict[str, Pool] = {}

    def to(self, host: str) -> Pool:
        pool = self._pools.get(host)
        if pool is None:
            pool = self._pools[host] = Pool(host, internal=self._internal)
        return pool

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
