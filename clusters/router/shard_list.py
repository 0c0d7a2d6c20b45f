"""Which shards there are, and up to which cluster time that is known to be all of them.

A shard that was added can get data without a word from the others (a database made on it). So no event goes to a client
whose cluster time lies past this list; the list is read again, once for all who wait. Knows nothing of streams.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bson.timestamp import Timestamp

from clusters.router.shared import Shared

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
        self._reading = Shared(self._once)
        self.latest: Mapping[str, str] = {}
        """As read last."""
        self._until = Timestamp(0, 0)

    async def now(self) -> Mapping[str, str]:
        """Read now. Raises what reading raises."""
        return await self._reading.fresh()

    def known(self, time: Timestamp) -> Mapping[str, str] | None:
        """All shards with an event up to `time`, if that is known."""
        return self.latest if self._until >= time else None

    async def ask(self, time: Timestamp) -> Mapping[str, str] | None:
        """As `known`, read again if need be; None where it cannot be read (logged). `time` must be known here already.

        One reading serves all who wait.
        """
        if self._until < time:
            try:
                await self.now()
            except Exception as error:
                log.warning("the list of shards cannot be read (%s); change streams wait for it", error)
        return self.known(time)

    async def _once(self) -> Mapping[str, str]:
        told = self._cluster_time()
        self.latest = await self._read()
        if told is not None:
            self._until = max(self._until, told["clusterTime"])
        return self.latest
