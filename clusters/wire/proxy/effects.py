"""What the rules in force mean for one direction of one connection, and for one message on it."""

from __future__ import annotations

from typing import Final, NamedTuple

from clusters.wire.proxy.book import Active
from clusters.wire.proxy.rules import Direction, Kind


class Effects:
    """What the rules in force mean for one direction of one connection."""

    __slots__ = ("by_message", "delays", "holds", "plain", "rates")

    def __init__(self, rules: list[Active], direction: Direction) -> None:
        mine = [active for active in rules if active.rule.in_direction(direction)]
        whole = [active for active in mine if not active.rule.reads_messages]
        self.delays = [active for active in whole if active.rule.kind is Kind.LATENCY]
        self.rates = [active for active in whole if active.rule.kind is Kind.BANDWIDTH]
        self.holds = [active for active in whole if active.rule.kind is Kind.BLACKHOLE]
        self.by_message = [active for active in mine if active.rule.reads_messages]
        self.plain = not (self.delays or self.rates or self.holds)
        """Whether bytes may go straight on."""


NO_EFFECTS: Final = {direction: Effects([], direction) for direction in Direction}


class Verdict(NamedTuple):
    """Each names the rule on whose behalf: the message is `lost`, held while `gate` is in force, late by `delays`, or
    its connection is `cut` instead."""

    lost: Active | None = None
    gate: Active | None = None
    delays: tuple[Active, ...] = ()
    cut: Active | None = None


PASSES: Final = Verdict()
