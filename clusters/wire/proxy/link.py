"""One listening address, the address behind it, and the connections through it."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from clusters.wire.proxy.book import Active
from clusters.wire.proxy.pair import Pair
from clusters.wire.proxy.side import Side
from clusters.wire.proxy.source import Source
from clusters.wire.proxy.tap import Tap

BACKLOG = 1024
"""Connections not accepted yet: a thousand clients may come at once."""


class Link:
    """`listen` and `target` are host and port."""

    def __init__(
        self,
        name: str,
        listen: tuple[str, int],
        target: tuple[str, int],
        *,
        peers: Mapping[str, str],
        numbers: itertools.count[int],
        tap: Tap,
    ) -> None:
        self.name, self.listen, self.target = name, listen, target
        self.peers = peers
        self.tap = tap
        self.tapped = False
        self.rules: list[Active] = []
        """Those in force on this link, in the order in which they came."""
        self.pairs: set[Pair] = set()
        self.accepted = 0
        self.unreachable = 0
        """Connections reset because the target could not be reached."""
        self.unreadable = 0
        """Messages that passed unread, and directions of connections in which none can be told from the next."""
        self._numbers = numbers
        self._sources: dict[Source, Source] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, *self.listen, backlog=BACKLOG)

    def _accept(self) -> Side:
        return Pair(self, next(self._numbers)).client

    def interned(self, source: Source) -> Source:
        return self._sources.setdefault(source, source)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for pair in list(self.pairs):
            pair.reset()

    def add(self, active: Active) -> None:
        self.rules.append(active)
        for pair in list(self.pairs):
            pair.added(active)

    def remove(self, active: Active) -> None:
        self.rules.remove(active)
        for pair in list(self.pairs):
            pair.removed(active)

    def switch_tap(self, on: bool) -> None:
        self.tapped = on
        for pair in list(self.pairs):
            pair.apply()

    def status(self) -> dict[str, Any]:
        found = Counter(pair.source for pair in self.pairs)
        return {
            "name": self.name,
            "listen": "{}:{}".format(*self.listen),
            "target": "{}:{}".format(*self.target),
            "accepted": self.accepted,
            "unreachable": self.unreachable,
            "unreadable": self.unreadable,
            "tap": self.tapped,
            "connections": [
                {"source": source.name, "app": source.app, "driver": source.driver, "open": count}
                if source is not None
                else {"source": "", "app": "", "driver": "", "open": count}
                for source, count in found.items()
            ],
        }
