"""One connection through the proxy: a client's socket, the target's, and what the rules in force do to both."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final, cast

from clusters.wire.framing import read_room
from clusters.wire.message import EXHAUST_ALLOWED, MORE_TO_COME, OP_COMPRESSED, OP_MSG, Message, ProtocolError
from clusters.wire.proxy import tap
from clusters.wire.proxy.book import Active, Effects
from clusters.wire.proxy.flow import PASSES, Flow, Replies, Requests, Verdict
from clusters.wire.proxy.rules import Direction, Kind
from clusters.wire.proxy.source import NOBODY, Source, identify, without_compression

if TYPE_CHECKING:
    from clusters.wire.proxy.link import Link

UNREADABLE: Final = (ProtocolError, ValueError, LookupError, struct.error)
"""What bytes that are no message, or no BSON, raise. bson's own error is a ValueError."""
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: close sends RST."""
AT_ONCE: Final = frozenset((Kind.CUT, Kind.HALF_OPEN))


class Side(asyncio.BufferedProtocol):
    """One socket of a pair. `out` carries what it sends, `feed` what it gets."""

    __slots__ = ("_paused", "_room", "closed", "feed", "open", "out", "pair", "transport", "writable")

    feed: Flow
    out: Flow
    transport: asyncio.Transport

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.open = False
        """Connected, and not closed by anybody yet."""
        self.closed = False
        self.writable = True
        self._paused = False
        self._room = read_room()

    def read(self, on: bool) -> None:
        if self.open and on == self._paused:
            self._paused = not on
            if on:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def end(self, reset: bool) -> None:
        """Close once all that was written is sent, or reset at once."""
        if not self.open:
            return
        self.open, self.closed = False, True
        if reset:
            # None where uvloop has lost the socket already.
            if (one := self.transport.get_extra_info("socket")) is not None and one.fileno() >= 0:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()
        else:
            self.transport.close()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transport is one in behaviour only.
        self.transport = cast(asyncio.Transport, transport)
        self.open = True
        self.pair.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.out.arrived(self._room[:nbytes])

    def pause_writing(self) -> None:
        self.writable = False
        self.feed.settle()

    def resume_writing(self) -> None:
        self.writable = True
        self.feed.drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open, self.closed = False, True
        self.pair.lost(self, reset=exc is not None)


class Pair:
    """`number` grows with each connection of the proxy."""

    __slots__ = (
        "_asked",
        "_dialling",
        "_inherited",
        "_tapped",
        "client",
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
        self._asked: dict[int, tap.Asked] = {}
        """Requests that were read and wait for their reply, by request id; the id of a stream's last reply."""
        self._inherited: tap.Asked | None = None
        """A stream of replies that began before anybody read: the id of its last reply is not known."""
        self._tapped = False
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
            self._drop_asked()
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
        self._drop_asked()
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
        if not self.link.tapped and self._tapped:
            self._drop_asked(answered=True)
        self._tapped = self.link.tapped
        if reading and not self.requests.reading and not self.requests.first:
            self._remember()
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

    # messages

    def _remember(self) -> None:
        """Reading begins: the request whose reply is still to come, if any."""
        self._asked.clear()
        if self.last is None:
            return
        try:
            message = Message(self.last)
            asked = tap.read(message)
        except UNREADABLE:
            return
        if message.op == OP_MSG and message.flags & MORE_TO_COME:
            return
        self._asked[message.request_id] = asked
        if message.op == OP_MSG and message.flags & EXHAUST_ALLOWED:
            self._inherited = asked

    def asks(self, raw: bytes) -> Verdict | None:
        """What becomes of a request; None where the connection was reset instead."""
        if int.from_bytes(raw[12:16], "little") == OP_COMPRESSED:
            self.link.unreadable += 1
            return PASSES
        try:
            message = Message(raw)
            asked = tap.read(message)
        except UNREADABLE:
            self.link.unreadable += 1
            return PASSES
        if self._tapped:
            assert self.source is not None
            asked.rows = self.link.tap.sent(self.link.name, self.source.name, asked, message)
        if not (message.op == OP_MSG and message.flags & MORE_TO_COME):
            self._asked[message.request_id] = asked
        else:
            self.link.tap.ended(asked.rows)
        if not self.requests.effects.by_message:
            return PASSES
        for active in self.requests.effects.by_message:
            if active.rule.kind is Kind.CUT and active.rule.on_message(asked.command, asked.namespace):
                active.acted(self, len(raw), 1)
                self.reset(active)
                return None
        return self._judge(asked, self.requests, len(raw))

    def answers(self, request_id: int, response_to: int, more: bool) -> Verdict:
        """What becomes of a reply; `more` of them follow without another request."""
        asked = self._asked.pop(response_to, None)
        if asked is None:
            asked = self._inherited
            if asked is None:
                return PASSES
        self._inherited = None
        if more:
            self._asked[request_id] = asked
        elif asked.rows:
            self.link.tap.ended(asked.rows)
        return self._judge(asked, self.replies, 0) if self.replies.effects.by_message else PASSES

    def _judge(self, asked: tap.Asked, flow: Flow, size: int) -> Verdict:
        """`size` of a request; a reply's bytes are counted as they come."""
        lost = gate = None
        delays = []
        for active in flow.effects.by_message:
            kind = active.rule.kind
            if not active.rule.on_message(asked.command, asked.namespace):
                continue
            if kind is Kind.SWALLOW and flow.direction is Direction.FROM:
                lost = lost or active
                active.acted(self, 0, 1)
                active.broken.add(self)
            elif kind is Kind.BLACKHOLE:
                gate = gate or active
                active.acted(self, size, 1)
            elif kind is Kind.LATENCY:
                delays.append(active)
                active.acted(self, 0, 1)
        if lost is None and gate is None and not delays:
            return PASSES
        return Verdict(lost, gate, tuple(delays))

    def _drop_asked(self, *, answered: bool = False) -> None:
        """Nobody counts these any more, or sees them answered."""
        for asked in self._asked.values():
            self.link.tap.ended(asked.rows, answered=answered)
            asked.rows = ()
