"""Requests and their replies on one connection: which belongs to which, what they count, what rules make of each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from clusters.wire.message import EXHAUST_ALLOWED, MORE_TO_COME, OP_MSG, Message, ProtocolError
from clusters.wire.proxy.effects import PASSES, Verdict
from clusters.wire.proxy.flow import Flow
from clusters.wire.proxy.rules import Direction, Kind
from clusters.wire.proxy.tap import Asked, read

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair

UNREADABLE: Final = (ProtocolError, ValueError, LookupError, struct.error)
"""What bytes that are no message, or no BSON, raise. bson's own error is a ValueError."""


class Exchange:
    """Of a pair whose messages are read."""

    __slots__ = ("_asked", "_inherited", "_pair", "_tapped")

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._asked: dict[int, Asked] = {}
        """Requests that wait for their reply, by request id; in a stream of replies by the id of the last one."""
        self._inherited: Asked | None = None
        """A stream of replies that began before anybody read: the id of its last reply is not known."""
        self._tapped = False

    def tap(self, on: bool) -> None:
        if self._tapped and not on:
            self.drop(answered=True)
        self._tapped = on

    def begin(self, last: bytes | None) -> None:
        """Reading begins, `last` is the request whose reply is still to come."""
        self._asked.clear()
        self._inherited = None
        if last is None:
            return
        try:
            message = Message(last)
            asked = read(message)
        except UNREADABLE:
            return
        if message.op == OP_MSG and message.flags & MORE_TO_COME:
            return
        self._asked[message.request_id] = asked
        if message.op == OP_MSG and message.flags & EXHAUST_ALLOWED:
            self._inherited = asked

    def asks(self, raw: bytes) -> Verdict:
        """What becomes of a request."""
        pair = self._pair
        try:
            message = Message(raw)
            asked = read(message)
        except UNREADABLE:
            pair.link.unreadable += 1
            return PASSES
        if self._tapped:
            assert pair.source is not None
            asked.rows = pair.link.tap.sent(pair.link.name, pair.source.name, asked, message)
        if message.op == OP_MSG and message.flags & MORE_TO_COME:
            # Nothing will answer it.
            pair.link.tap.ended(asked.rows)
        else:
            self._asked[message.request_id] = asked
        return self._judge(asked, pair.requests, len(raw)) if pair.requests.effects.by_message else PASSES

    def answers(self, request_id: int, response_to: int, more: bool) -> Verdict:
        """What becomes of a reply; `more` of them follow without another request."""
        asked = self._asked.pop(response_to, None) or self._inherited
        if asked is None:
            return PASSES
        self._inherited = None
        if more:
            self._asked[request_id] = asked
        elif asked.rows:
            self._pair.link.tap.ended(asked.rows)
        return self._judge(asked, self._pair.replies, 0) if self._pair.replies.effects.by_message else PASSES

    def drop(self, *, answered: bool = False) -> None:
        """Nobody counts these any more, or sees them answered."""
        for asked in self._asked.values():
            self._pair.link.tap.ended(asked.rows, answered=answered)
            asked.rows = ()

    def _judge(self, asked: Asked, flow: Flow, size: int) -> Verdict:
        """`size` of a request; a reply's bytes are counted as they come."""
        pair = self._pair
        verdict = PASSES
        for active in flow.effects.by_message:
            kind = active.rule.kind
            if not active.rule.on_message(asked.command, asked.namespace):
                continue
            if kind is Kind.CUT and flow.direction is Direction.TO:
                verdict = verdict._replace(cut=verdict.cut or active)
            elif kind is Kind.SWALLOW and flow.direction is Direction.FROM:
                verdict = verdict._replace(lost=verdict.lost or active)
                active.broken.add(pair)
            elif kind is Kind.BLACKHOLE:
                verdict = verdict._replace(gate=verdict.gate or active)
            elif kind is Kind.LATENCY:
                verdict = verdict._replace(delays=(*verdict.delays, active))
            else:
                continue
            active.acted(pair, size if kind in (Kind.CUT, Kind.BLACKHOLE) else 0, 1)
        return verdict
