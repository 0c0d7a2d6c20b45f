"""Faults in a program of one's own: aimed, proven, healed at the end of a block, or by the guardian if it is killed.

Judges nothing; where the cluster's history is kept, what was opened, proven, healed and recovered from is in it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from clusters.cluster import Cluster, Own
from clusters.uri import Uri
from faults.base import Evidence, HealFailed, Injection
from faults.options import Given
from harness import stage
from harness.ground import Ground, held_ground
from harness.holding import aim, proven, record_opened

if TYPE_CHECKING:
    from harness.histories import History

T = TypeVar("T")
SOURCE: Final = "program"


@asynccontextmanager
async def hold(which: str | Uri, *, history: History | None = None) -> AsyncIterator[Ground]:
    """A kept or adopted cluster, by name or URI, held for this program alone: `async with hold("mine") as ground`.

    Raises Refused: in use, or not ours.
    """
    async with held_ground(which, f"python-{secrets.token_hex(3)}") as ground:
        yield recorded(ground, history)


def recorded(ground: Ground, history: History | None) -> Ground:
    """The same ground; what is done to it through this one stands in the history from now on."""
    if history is not None:
        history.started(ground.cluster)
    return replace(ground, history=history)


async def aimed(
    ground: Ground, fault: str, on: str, options: Given, namespace: str | None, seed: int
) -> list[Injection]:
    """The fault for each node that the node spec `on` means. Raises Refused where one of them cannot bear it."""
    targets = await ground.select(on, seed=seed).members()
    return [await aim(ground, target, fault, options, namespace) for target in targets]


@asynccontextmanager
async def injected(
    where: Own | Ground,
    fault: str,
    on: str,
    *,
    options: Given = (),
    namespace: str | None = None,
    seed: int = 0,
) -> AsyncIterator[list[Evidence]]:
    """The fault acts within the block, on each node that the node spec `on` means; `options` as NAME=VALUE, or by name.

    `where` a cluster that was brought up here, or what `hold` gives. Gives the proofs, one for each node. Raises
    Refused where nothing was broken, Unproven, and HealFailed at the end of the block.
    """
    ground = where if isinstance(where, Ground) else Ground(where, where.ledger, where.guardian)
    struck = [_Struck(one, ground.history, options) for one in await aimed(ground, fault, on, options, namespace, seed)]
    try:
        yield await _all([one.inject() for one in struck])
    finally:
        await _all([one.heal() for one in struck])


async def recovered(where: Cluster | Ground) -> None:
    """Wait until the cluster is whole again: primaries writable, members caught up, known again to each other's
    monitors. Raises ClusterError naming what is not, after a minute."""
    history = where.history if isinstance(where, Ground) else None
    await stage.recovered(where.cluster if isinstance(where, Ground) else where)
    if history is not None:
        history.recovered()


class _Struck:
    """One injection, recorded if there is a history."""

    def __init__(self, injection: Injection, history: History | None, options: Given) -> None:
        self._injection, self._history, self._options = injection, history, options
        self._identity = f"f-{secrets.token_hex(2)}"

    async def inject(self) -> Evidence:
        if self._history is None:
            return await self._injection.inject()
        recorder = self._history.recorder
        record_opened(recorder, SOURCE, self._injection, self._identity, self._options)
        return await proven(recorder, SOURCE, self._identity, self._injection.inject())

    async def heal(self) -> None:
        try:
            await self._injection.heal()
        except HealFailed as error:
            if self._history is not None:
                self._history.recorder.record("fault.not_healed", SOURCE, id=self._identity, reason=str(error))
            raise
        if self._history is not None:
            self._history.healed(self._identity)


async def _all(acts: Sequence[Awaitable[T]]) -> list[T]:
    """What they all come to, once the last has ended. Raises the first error among them."""
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    for one in outcomes:
        if isinstance(one, BaseException):
            raise one
    return [one for one in outcomes if not isinstance(one, BaseException)]
