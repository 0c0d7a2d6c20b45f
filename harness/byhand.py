"""One fault on a cluster of ours, by hand: aimed, proven, held, healed, recovered from; told as it goes.

No load, no history, no verdict on the cluster: whoever asks for it looks at the cluster with tools of their own.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import faults
from clusters.errors import ClusterError
from clusters.uri import Uri
from faults.base import Injection, Unproven
from faults.options import parse as parse_options
from harness import stage
from harness.ground import Ground, held_ground
from harness.holding import held
from harness.injected import aimed


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. `hold` in seconds; `options` as NAME=VALUE."""

    fault: str
    on: str
    hold: float
    options: Sequence[str] = ()
    namespace: str | None = None
    seed: int = 0


@dataclass(slots=True)
class Blow:
    """The fault on one target, as it came out; times in seconds since the first was aimed, None: it did not happen."""

    target: str
    opened: float | None = None
    proven: float | None = None
    evidence: dict[str, Any] | None = None
    lost: float | None = None
    """When it was found to act no more, while it was to be held."""
    healed: float | None = None
    problem: str | None = None


@dataclass(slots=True)
class Outcome:
    """`recovered` in seconds; None: the cluster did not come back whole, and `problem` says how."""

    wish: Wish
    blows: list[Blow] = field(default_factory=list)
    recovered: float | None = None
    problem: str | None = None

    @property
    def as_it_should(self) -> bool:
        return self.recovered is not None and all(
            one.proven is not None and one.lost is None and one.healed is not None for one in self.blows
        )

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


async def strike(where: str | Uri, wish: Wish, say: Callable[[str], None]) -> Outcome:
    """Do it on the kept or adopted cluster of that name, or at that URI. Raises Refused where nothing was broken.

    A cancelled caller finds everything healed.
    """
    kind = faults.by_name(wish.fault)
    parse_options(kind.name, kind.options, wish.options)  # refused before anything is looked at
    async with held_ground(where, f"fault-{secrets.token_hex(3)}") as ground:
        injections = await aimed(ground, wish.fault, wish.on, wish.options, wish.namespace, wish.seed)
        outcome = Outcome(wish, [Blow(one.fault.target.name) for one in injections])
        course = _Course(wish, injections, outcome, say)
        try:
            await course.broken()
        finally:
            await asyncio.shield(asyncio.create_task(course.healed()))
        await course.recovered(ground)
        return outcome


class _Course:
    """The way of one blow, or of several at once."""

    def __init__(self, wish: Wish, aimed: list[Injection], outcome: Outcome, say: Callable[[str], None]) -> None:
        self._wish, self._outcome, self._say = wish, outcome, say
        self._pairs = list(zip(aimed, outcome.blows, strict=True))
        self._began = time.monotonic()

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 3)

    async def broken(self) -> None:
        """Injected, and held if all of it is proven."""
        proven = await asyncio.gather(*(self._inject(one, blow) for one, blow in self._pairs))
        if all(proven):
            self._say(f"held for {self._wish.hold:g} s")
            await asyncio.gather(*(held(one, self._wish.hold, partial(self._lost, blow)) for one, blow in self._pairs))

    async def healed(self) -> None:
        await asyncio.gather(*(self._heal(one, blow) for one, blow in self._pairs))

    async def recovered(self, ground: Ground) -> None:
        began = time.monotonic()
        try:
            await stage.recovered(ground.cluster)
        except ClusterError as error:
            self._outcome.problem = f"not recovered: {error}"
            self._say(self._outcome.problem)
            return
        self._outcome.recovered = self._now()
        self._say(f"recovered after {time.monotonic() - began:.1f} s: primaries writable, all members caught up")

    async def _inject(self, injection: Injection, blow: Blow) -> bool:
        blow.opened = self._now()
        try:
            evidence = await injection.inject()
        except Unproven as error:
            blow.problem = str(error)
            self._say(f"{self._wish.fault} on {blow.target}: not proven: {error}")
            return False
        blow.proven, blow.evidence = self._now(), asdict(evidence)
        self._say(f"{self._wish.fault} on {blow.target}: proven at {blow.proven:g} s: {evidence.statement}")
        return True

    def _lost(self, blow: Blow) -> None:
        blow.lost = self._now()
        blow.problem = f"acts no more {blow.lost:g} s after it began, before it was healed"
        self._say(f"{self._wish.fault} on {blow.target}: {blow.problem}")

    async def _heal(self, injection: Injection, blow: Blow) -> None:
        if blow.opened is None:
            return
        try:
            await injection.heal()
        except ClusterError as error:
            blow.problem = f"NOT HEALED: {error}"
            self._say(f"{self._wish.fault} on {blow.target}: {blow.problem}")
            return
        blow.healed = self._now()
        self._say(f"{self._wish.fault} on {blow.target}: healed at {blow.healed:g} s")
