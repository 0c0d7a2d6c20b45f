"""`lock-wait`: a primary under fsyncLock: every write waits for the global lock, and everything else is answered.

The wait looks for interrupts: maxTimeMS and killOp end it, and then nothing was written. Not so the wait of what was
written just before the lock was held: it lacks its write concern until the lock is let go, whatever its maxTimeMS
(measured on 6.0.5). So this fault is on when the lock is held. Proven by a command of our own that wants the lock,
changes nothing, and is ended by its maxTimeMS.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar

from clusters.guard import Undo
from faults import means
from faults.base import Evidence, Site, Unproven, register
from faults.direct import Direct
from faults.fsync_lock import FsyncLock
from faults.options import Options
from faults.waiting import waits


@register
class LockWait:
    """Hold the global lock of one primary; see the module."""

    name: ClassVar[str] = "lock-wait"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = True
    needs: ClassVar[str] = "a primary"
    proven_by: ClassVar[str] = "a command of ours that waits for the lock until its maxTimeMS; currentOp says fsyncLock"
    healed_by: ClassVar[str] = "fsyncUnlock, and seen to be unlocked"
    aim: ClassVar[str] = "primary"

    def __init__(self, site: Site, _options: Any = None) -> None:
        self.target = site.target
        self._lock = FsyncLock(site.target.host)

    async def available(self) -> str | None:
        return await means.no_primary(self.target) or await means.obstacle(self.target, self._lock)

    def undo(self) -> Sequence[Undo]:
        return [self._lock.undo()]

    async def inject(self) -> None:
        await self._lock.on()

    async def proof(self) -> Evidence:
        with closing(Direct(self.target.host)) as server:
            seconds, taken = await waits(server), await self._lock.taken()
        if seconds is None or taken is None:
            raise Unproven(f"a command that wants the global lock of {self.target.name} does not wait for it")
        return Evidence(
            f"a command of ours waited {seconds:.1f} s for the global lock of {self.target.name}, until its maxTimeMS "
            f"ended it (50); {taken}",
            {"seconds": seconds, "taken": taken},
        )

    async def active(self) -> bool:
        return await means.surely(self._lock.is_held())

    async def heal(self) -> None:
        await means.switch_off(self.target, self._lock)
