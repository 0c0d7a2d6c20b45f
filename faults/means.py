"""By what means a fault acts inside a server: something that can be switched on, looked at and switched off there.

`failpoint` and `fsync_lock` are such; a fault is a means, a target and a proof that it has its effect.
"""

from __future__ import annotations

from typing import Protocol

from clusters.guard import Undo
from clusters.member import Member
from clusters.wire.connection import CommandFailed, ConnectionLost, DeadlinePassed
from faults.base import HealFailed


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


async def obstacle(target: Member, means: Means) -> str | None:
    """Why it cannot be switched on there, or None; a sentence on the target."""
    try:
        reason = await means.obstacle()
    except (ConnectionLost, DeadlinePassed, CommandFailed) as error:
        reason = f"cannot be asked: {error}"
    finally:
        means.close()
    return None if reason is None else f"{target.name} {reason}"


async def switch_off(target: Member, means: Means) -> None:
    """Off, and seen to be off. A process that is gone took it along. Raises HealFailed."""
    try:
        if not target.running():
            return
        await means.off()
        if await means.is_on():
            raise HealFailed(f"{means} is still on after it was switched off on {target.name}")
    except (CommandFailed, ConnectionLost, DeadlinePassed) as error:
        if target.running():
            raise HealFailed(f"{means} on {target.name} cannot be shown to be off: {error}") from error
    finally:
        means.close()
