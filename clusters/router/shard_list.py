"""Which shards there are, and up to which cluster time that is known to be all of them.

A shard that was added can get data without a word from the others (a database made on it). So no event goes to a client
whose cluster time lies past this list; the list is read again, once for all who wait. Knows nothing of streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bson.timestamp import Timestamp

log = logging.getLogger("mongofault.router")


class ShardList:
    """`read` gives the shards (name -> set name) as the config servers have them when asked, telling them
    `cluster_time` first. What they write later, a shard's addition too, has a later time than that.
    """

    def __init__(
        self, read: Callable[[], Awaitable[Mapping[str, str]]], cluster_time: Callable[[], Mapping[str, Any] | None]
    ) -> None:
        self._read = read
        self._cluster_time = cluster_time
        self._shards: Mapping[str, str] = {}
        self._until = Timestamp(0, 0)
        self._reading: asyncio.Task[None] | None = None

    async def now(self) -> Mapping[str, str]:
        """Read now. Raises what reading raises."""
        told = self._cluster_time()
        shards = await self._read()
        if told is not None and told["clusterTime"] > self._until:
            self._shards, self._until = shards, told["clusterTime"]
        return shards

    def known(self, time: Timestamp) -> Mapping[str, str] | None:
        """All shards with an event up to `time`, if that is known."""
        return self._shards if self._until >= time else None

    async def ask(self, time: Timestamp) -> Mapping[str, str] | None:
        """As `known`, read again if need be; None where it cannot be read (logged). `time` must be known here already.

        Twice, where the reading under way had begun too early for `time`.
        """
        for _attempt in range(2):
            if self._until >= time:
                break
            if self._reading is None:
                self._reading = asyncio.create_task(self._once(), name="read the list of shards")
            # Shielded: others wait for the same.
            await asyncio.shield(self._reading)
        return self.known(time)

    async def _once(self) -> None:
        try:
            await self.now()
        except Exception as error:
            log.warning("the list of shards cannot be read (%s); change streams wait for it", error)
        finally:
            self._reading = None
