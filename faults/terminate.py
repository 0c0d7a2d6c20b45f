"""`terminate`: a member shut down in order by SIGTERM, as for maintenance, and started again at the heal.

A primary steps down first; then, from 5.0 on, the member tells its clients for 15 s that it is going (error 91), unless
shutdownTimeoutMillisForSignaledShutdown says otherwise, and ends. Proven by the kernel and by the last line of its log.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from clusters.guard import Process, Undo
from faults import process
from faults.base import Evidence, Site, Unproven, register
from faults.options import Options

SHUTDOWN_DEADLINE = 60.0
"""Seconds until the process must be gone; it takes 16 with the server's own time for clients (measured on 6.0.5)."""


@register
class Terminate:
    """Shut one member down; see the module."""

    name: ClassVar[str] = "terminate"
    options: ClassVar[type[Options]] = Options
    spares_health: ClassVar[bool] = False
    needs: ClassVar[str] = "a member that is a process or a container of this machine"
    proven_by: ClassVar[str] = "no process, as the kernel says, and an orderly end as the last line of its log"
    healed_by: ClassVar[str] = "started again, and it says hello"
    aim: ClassVar[str] = "any"

    def __init__(self, site: Site, options: Any = None) -> None:
        self.target = site.target
        self._before: Process | None = None
        self._since = 0.0

    async def available(self) -> str | None:
        return process.obstacle(self.target)

    def undo(self) -> Sequence[Undo]:
        return [process.start_again(self.target)]

    async def inject(self) -> None:
        server = process.server(self.target)
        self._before, self._since = server.process, time.time()
        await server.stop(deadline=SHUTDOWN_DEADLINE)

    async def proof(self) -> Evidence:
        evidence = process.gone(self.target)
        said = process.server(self.target).log_lines(self._since)
        # The router ends without a word; of a mongod whose end was not in order this line is missing.
        if self.target.spec.role.is_mongod and not (said and "shutting down" in said[-1].lower()):
            raise Unproven(f"{self.target.name} has ended, but its log does not say that it shut down")
        return evidence

    async def active(self) -> bool:
        return not self.target.running()

    async def heal(self) -> None:
        await process.started(self.target, self._before)
