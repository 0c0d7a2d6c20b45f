"""Whether what wants to write to a server has to wait there: asked with a command that changes nothing.

Whatever it would have to wait for, the faults know.
"""

from __future__ import annotations

import time
from typing import Final

from clusters.wire.connection import CommandFailed
from faults.direct import Direct

MAX_TIME: Final = 0.5
"""Seconds after which the server is to end the wait. For a ticket it looks at its clock twice a second (6.0.5)."""
MAX_TIME_EXPIRED: Final = 50
NAMESPACE_NOT_FOUND: Final = 26


async def waits(server: Direct) -> float | None:
    """Seconds that a command waited which takes the locks of a write, until its maxTimeMS; None where it need not.

    It drops an index of a collection that there is not: no write, so that it is not taken for one in any count.
    Raises CommandFailed on another error, ConnectionLost, DeadlinePassed.
    """
    begin = time.monotonic()
    command = {"dropIndexes": "none", "index": "none", "maxTimeMS": round(MAX_TIME * 1000)}
    try:
        await server.command(command, database="mongofault_probe")
    except CommandFailed as error:
        if error.code == MAX_TIME_EXPIRED:
            return round(time.monotonic() - begin, 3)
        if error.code != NAMESPACE_NOT_FOUND:
            raise
    return None
