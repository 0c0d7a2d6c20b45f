"""One connection through the proxy: a client's socket, the target's, and what the rules in force do to both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusters.wire.message import Message
from clusters.wire.proxy.book import Active
from clusters.wire.proxy.effects import Effects
from clusters.wire.proxy.exchange import UNREADABLE, Exchange
from clusters.wire.proxy.replies import Replies
from clusters.wire.proxy.requests import Requests
from clusters.wire.proxy.rules import Kind
from clusters.wire.proxy.side import Side
from clusters.wire.proxy.source import NOBODY, Source, identify, without_compression

if TYPE_CHECKING:
    from clusters.wire.proxy.link import Link


class Pair:
    """`number` grows with each connection of the proxy."""

    __slots__ = (
        "_dialling",
        "client",
        "exchange",
        "last",
        "link",
        "loop",
        "number",
        "over",
        "replies",
        "requests",
        "rules",
        "server",
        "source",
        "touched",
    )  # fmt: skip

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self.number = number
        self.loop = asyncio.get_running_loop()
        self.source: Source | None = None
        """None before the first message."""
        self.rules: list[Active] = []
        """Those in force that mean this connection."""
        self.touched: set[Active] = set()
        """Those that have acted on it."""
        self.last: bytes | None = None
        """The last request, as long as it may have a reply to come and was not long."""
        self.over = False
        self.exchange = Exchange(self)
        self._dialling: asyncio.Task[None] | None = None
        self.client, self.server = Side(self), Side(self)
        self.requests = Requests(self, self.client, self.server)
        self.replies = Replies(self, self.server, self.client)

    # how it comes and goes

    def connected(self, side: Side) -> None:
        if side is self.client:
            self.link.pairs.add(self)
            self.link.accepted += 1
            self._meet()
            if not self.over:
                self.apply()
        else:
            self.requests.drain()
            self.replies.settle()

    def named(self, raw: bytes | None) -> bytes:
        """The first message came (None: bytes that are none). Gives it back as it is to go on."""
        self.source = NOBODY
        changed = raw or b""
        if raw is not None:
            try:
                message = Message(raw)
                source = identify(message, self.link.peers)
                # Nobody could read what is compressed.
                changed = without_compression(message)
                self.source = self.link.interned(source)
            except UNREADABLE:
                self.link.unreadable += 1
        self._meet()
        if not self.over:
            self.apply()
        return changed

    def _meet(self) -> None:
        """The rules that look at a connection once: when it comes, and when it says who it is."""
        for active in self.link.rules:
            if active.rule.from_source(self.source):
                self._at_once(active)

    def _at_once(self, active: Active) -> None:
        rule = active.rule
        if self.over or rule.reads_messages:
            return
        was_there = self.number <= active.since
        if (rule.kind is Kind.CUT and was_there) or (rule.kind is Kind.REFUSE and not was_there):
            self.reset(active)
        elif rule.kind is Kind.HALF_OPEN and was_there:
            active.acted(self, 0)
            active.broken.add(self)
            self.exchange.drop()
            self.requests.discard(active)
            self.replies.discard(active)

    def dial(self) -> None:
        """Connect to the target, once; a client that never says anything needs none."""
        if self._dialling is None and not self.over:
            self._dialling = self.loop.create_task(self._dial())

    async def _dial(self) -> None:
        try:
            await self.loop.create_connection(lambda: self.server, *self.link.target)
        except OSError:
            self.link.unreachable += 1
            self.reset()

    def lost(self, side: Side, *, reset: bool) -> None:
        """One side is gone; the other hears of it as the rules allow."""
        if self.over:
            return
        side.feed.clear()
        if (self.client.closed and self.server.closed) or self._dialling is None:
            self._forget()
        else:
            side.out.ended(reset)

    def reset(self, active: Active | None = None) -> None:
        """Both sides, at once; on behalf of a rule, which counts it."""
        if self.over:
            return
        if active is not None:
            active.acted(self, 0)
            active.resets += 1
        self._forget()
        self.client.end(True)
        self.server.end(True)

    def _forget(self) -> None:
        self.over = True
        self.link.pairs.discard(self)
        if self._dialling is not None and not self.server.closed and not self.server.open:
            self._dialling.cancel()
        self.exchange.drop()
        for active in self.touched:
            active.broken.discard(self)
        self.requests.clear()
        self.replies.clear()

    # rules

    def apply(self) -> None:
        """The rules of the link, as they are now, from now on."""
        self.rules = [active for active in self.link.rules if active.rule.from_source(self.source)]
        # Both directions: a reply is known by its request.
        reading = self.link.tapped or any(active.rule.reads_messages for active in self.rules)
        self.exchange.tap(self.link.tapped)
        if reading and not self.requests.reading:
            self.exchange.begin(self.last)
        for flow in (self.requests, self.replies):
            flow.apply(Effects(self.rules, flow.direction), reading)
            if self.over:
                return

    def added(self, active: Active) -> None:
        if active.rule.from_source(self.source):
            self._at_once(active)
            if not self.over:
                self.apply()

    def removed(self, active: Active) -> None:
        """Heal: what was held flows on, what has lost bytes is reset."""
        if self in active.broken:
            self.reset(active)
        elif active in self.rules:
            if active.rule.kind in (Kind.LATENCY, Kind.BANDWIDTH):
                self.requests.hurry()
                self.replies.hurry()
            self.apply()
