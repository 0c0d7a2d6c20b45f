"""Connections that are open before they are needed, as those of an application that has run for a while.

A stopped server answers no handshake: with a cold pool, resends and later executions never reach it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from pymongo.errors import ExecutionTimeout, NetworkTimeout

from harness.drivers.clients import Client, OptionValue

HOLD: Final = 0.25
"""Seconds for which each connection is kept busy at first, so that the next request needs another one."""


class NotWarm(Exception):
    """Says how many connections were expected, and how many were found."""


async def warm(
    client: Client, connections: int, options: Mapping[str, OptionValue] | None = None, *, deadline: float = 30.0
) -> None:
    """Open so many to the node that is written to, and leave them idle in the pool. Raises NotWarm, PyMongoError.

    Each is kept busy by a `hello` that waits for the topology to change (servers from 4.4 on); they are counted by the
    `connectionId` of the replies. `options` are the client's: requests are held for less than its time limits.

    Under timeoutMS the driver sends a maxTimeMS with it, and then the end of the waiting is error 50 (measured on
    6.0.5), without a `connectionId`: had two of them gone one after the other, they had taken twice as long.
    """
    limits = [
        float(value) / 1000 for name, value in (options or {}).items() if name in ("socketTimeoutMS", "timeoutMS")
    ]
    longest = min((limit / 2 for limit in limits if limit), default=8 * HOLD)
    hold, found = min(HOLD, longest), 0
    try:
        async with asyncio.timeout(deadline):
            while (first := await _hello(client, {"hello": 1})) is None:
                pass
            version = first["topologyVersion"]
            while True:
                command: dict[str, Any] = {
                    "hello": 1,
                    "topologyVersion": version,
                    "maxAwaitTimeMS": max(1, int(hold * 1000)),
                }
                asked = time.monotonic()
                answers = await asyncio.gather(*(_hello(client, command) for _ in range(connections)))
                replies = [one for one in answers if one is not None]
                if not replies and time.monotonic() - asked < 2 * hold:
                    return
                found = max(found, len({reply["connectionId"] for reply in replies}))
                if found >= connections:
                    return
                version = replies[-1]["topologyVersion"] if replies else version
                hold = min(2 * hold, longest)
    except TimeoutError:
        raise NotWarm(
            f"warm connections: expected {connections} within {deadline:g} s, found {found}; ask for fewer"
        ) from None


async def _hello(client: Client, command: dict[str, Any]) -> Mapping[str, Any] | None:
    """The reply; None where the waiting ended in error 50, or on a busy machine too late. Raises PyMongoError."""
    try:
        reply: Mapping[str, Any] = await client.admin.command(command)
    except (ExecutionTimeout, NetworkTimeout):
        return None
    return reply
