"""By what means a fault acts inside a server: something that can be switched on, looked at and switched off there.

`failpoint` and `fsync_lock` are such; a fault is a means, a target and a proof that it has its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from clusters.guard import Undo
from clusters.member import Member
from faults.base import HealFailed, Site
from faults.direct import FAILURES, NoAnswer, ask


class Means(Protocol):
    """On one server. `str()` names it for sentences."""

    async def obstacle(self) -> str | None:
        """Why it cannot be switched on, or None; without naming the server. Changes nothing."""

    def undo(self) -> Undo: ...

    async def on(self) -> None: ...

    async def is_on(self) -> bool: ...

    async def taken(self) -> str | None:
        """How the server itself shows that it came into effect; None as long as it does not."""

    async def off(self) -> None:
        """Switch it off; harmless where it is off."""

    def close(self) -> None: ...


async def no_secondary(target: Member) -> str | None:
    """Why there is no replication to it that could be disturbed, or None."""
    return await _unless(target, "secondary", "is no secondary: nothing is replicated to it")


async def no_primary(target: Member) -> str | None:
    """Why nothing is written to it that could be made to wait, or None."""
    return await _unless(target, "isWritablePrimary", "is no primary: nothing is written to it")


async def _unless(target: Member, said: str, why: str) -> str | None:
    """`why` where its hello does not say so."""
    try:
        hello = await ask(target, {"hello": 1})
    except NoAnswer as error:
        return str(error)
    return None if hello.get(said) else f"{target.name} {why}"


def stand_in(site: Site) -> str | None:
    """Why a fail point of the target could not be looked at, or None."""
    if site.target.spec.role.is_mongod or site.cluster.server.router != "stand-in":
        return None
    return f"{site.target.name} is the stand-in, which does not tell how often a fail point was entered: aim at members"


async def obstacle(target: Member, means: Means) -> str | None:
    """Why it cannot be switched on there, or None; a sentence on the target."""
    try:
        reason = await means.obstacle()
    except FAILURES as error:
        reason = f"cannot be asked: {error}"
    finally:
        means.close()
    return None if reason is None else f"{target.name} {reason}"


async def acts(means: Means) -> bool:
    """Whether it is on; it is not on a server that cannot be asked."""
    return await surely(means.is_on())


async def surely(asked: Awaitable[bool]) -> bool:
    """What the server says; False where it cannot be asked."""
    try:
        return await asked
    except FAILURES:
        return False


async def switch_off(target: Member, means: Means) -> None:
    """Off, and seen to be off. A process that is gone took it along. Raises HealFailed."""
    try:
        if not target.running():
            return
        await means.off()
        if await means.is_on():
            raise HealFailed(f"{means} is still on after it was switched off on {target.name}")
    except FAILURES as error:
        if target.running():
            raise HealFailed(f"{means} on {target.name} cannot be shown to be off: {error}") from error
    finally:
        means.close()
