"""The rules in force, and what each has done so far: the proof of a fault."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from clusters.wire.proxy.rules import Direction, Rule

if TYPE_CHECKING:
    from clusters.wire.proxy.pair import Pair


class Active:
    """A rule in force. Connections numbered up to `since` were there when it came."""

    def __init__(self, name: str, rule: Rule, since: int) -> None:
        self.name = name
        self.rule = rule
        self.since = since
        self.removed = False
        self.connections = 0
        """Those it has acted on, each once; `messages` only where it picks among them."""
        self.messages = 0
        self.bytes = 0
        self.resets = 0
        self.broken: set[Pair] = set()
        """Open connections that have lost bytes for good: reset when the rule is removed."""
        self._random = random.Random(rule.seed)
        self._free = dict.fromkeys(Direction, 0.0)

    def acted(self, pair: Pair, size: int, messages: int = 0) -> None:
        if self not in pair.touched:
            pair.touched.add(self)
            self.connections += 1
        self.bytes += size
        self.messages += messages

    def lag(self) -> float:
        """Seconds of latency for what comes next."""
        rule = self.rule
        jitter = rule.jitter_ms * self._random.uniform(-1, 1) if rule.jitter_ms else 0.0
        return max(0.0, rule.ms + jitter) / 1000

    def passed(self, direction: Direction, now: float, size: int) -> float:
        """When as many bytes have gone through at the rule's rate, behind those before them."""
        done = max(self._free[direction], now) + size / self.rule.bytes_per_second
        self._free[direction] = done
        return done

    def status(self, matching: int) -> dict[str, Any]:
        return {
            "id": self.name,
            **self.rule.document(),
            "matching": matching,
            "connections": self.connections,
            "messages": self.messages,
            "bytes": self.bytes,
            "resets": self.resets,
        }
