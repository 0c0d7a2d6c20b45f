"""Faults in a program of one's own: aimed, proven, healed at the end of a block, or by the guardian if it is killed.

Records and judges nothing; recovery is waited for with `stage.recovered`.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from clusters.cluster import Own
from clusters.uri import Uri
from faults.base import Evidence, Injection
from faults.nodespec import resolve
from harness import nodes
from harness.ground import Ground, held_ground
from harness.holding import aim

T = TypeVar("T")


def hold(which: str | Uri) -> AbstractAsyncContextManager[Ground]:
    """A kept or adopted cluster, by name or URI, held for this program alone: `async with hold("mine") as ground`.

    Raises Refused: in use, or not ours.
    """
    return held_ground(which, f"python-{secrets.token_hex(3)}")


async def aimed(
    ground: Ground, fault: str, on: str, options: Sequence[str], namespace: str | None, seed: int
) -> list[Injection]:
    """The fault for each node that the node spec `on` means. Raises Refused where one of them cannot bear it."""
    names = resolve(on, await nodes.as_they_are(ground.cluster), random.Random(seed))
    targets = [nodes.node(ground.cluster, name) for name in names]
    return [await aim(ground, target, fault, options, namespace) for target in targets]


@asynccontextmanager
async def injected(
    where: Own | Ground,
    fault: str,
    on: str,
    *,
    options: Sequence[str] = (),
    namespace: str | None = None,
    seed: int = 0,
) -> AsyncIterator[list[Evidence]]:
    """The fault acts within the block, on each node that the node spec `on` means; `options` as NAME=VALUE.

    `where` a cluster that was brought up here, or what `hold` gives. Gives the proofs, one for each node. Raises
    Refused where nothing was broken, Unproven, and HealFailed at the end of the block.
    """
    ground = where if isinstance(where, Ground) else Ground(where, where.ledger, where.guardian)
    injections = await aimed(ground, fault, on, options, namespace, seed)
    try:
        yield await _all([one.inject() for one in injections])
    finally:
        await _all([one.heal() for one in injections])


async def _all(acts: Sequence[Awaitable[T]]) -> list[T]:
    """What they all come to, once the last has ended. Raises the first error among them."""
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    for one in outcomes:
        if isinstance(one, BaseException):
            raise one
    return [one for one in outcomes if not isinstance(one, BaseException)]
