"""Pools of connections, one per host: a free one is reused, a new one is dialled when none is free.

No upper bound: a getMore that hangs occupies its connection for as long as it hangs, and must not starve the others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters.wire.connection import APP_NAME, Connection
from clusters.wire.message import Message

CONNECT_DEADLINE = 10.0
"""Seconds to connect and shake hands."""
IDLE_SECONDS = 60.0
"""A connection that nobody needed for as long is closed when another is given back."""


class Pool:
    """Connections to one host, `internal` as a fellow server (see `Connection.open`)."""

    def __init__(self, host: str, *, internal: bool = False, app_name: str = APP_NAME) -> None:
        self.host = host
        self._internal = internal
        self._app_name = app_name
        self._idle: deque[tuple[Connection, float]] = deque()
        """Those given back, and since when; the last given back is the first to be used again."""
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
        return self.idle() or await Connection.open(
            self.host, deadline=CONNECT_DEADLINE, internal=self._internal, app_name=self._app_name
        )

    def idle(self) -> Connection | None:
        """A connection that is there and free, to be given back by `release`."""
        while self._idle:
            connection, _since = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    def release(self, connection: Connection) -> None:
        if not connection.usable or self._closed:
            connection.close()
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        while now - self._idle[0][1] > IDLE_SECONDS:
            self._idle.popleft()[0].close()

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop()[0].close()


class Pools:
    """A pool per host, made when first asked for."""

    def __init__(self, *, internal: bool = False, app_name: str = APP_NAME) -> None:
        self._internal = internal
        self._app_name = app_name
        self._pools: dict[str, Pool] = {}

    def to(self, host: str) -> Pool:
        pool = self._pools.get(host)
        if pool is None:
            pool = self._pools[host] = Pool(host, internal=self._internal, app_name=self._app_name)
        return pool

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
