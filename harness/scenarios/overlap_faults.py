"""What each fault does to the writes of `retry-overlap`: how it holds them, and what the server is assumed to do then.

Pure. The server's names of fail points are of 6.0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.prediction import Server

ENGINE_HANGS: Final[Mapping[str, str]] = {
    "insert": "hangDuringBatchInsert",
    "update": "hangDuringBatchUpdate",
    "delete": "hangDuringBatchRemove",
    "findAndModify": "hangBeforeFindAndModifyPerformsUpdate",
}
"""Fail points inside the engine, behind the session's check-out, by the command that they hold."""

INTERRUPTIBLE: Final = frozenset({"lock-wait", "write-conflict", "no-tickets"})
"""Faults under which a write waits where it looks for interrupts."""
BEFORE_MAX_TIME: Final = frozenset({"fail-command", "freeze"})
"""Faults that hold a request, and its resend, before the server looks at its maxTimeMS."""
IN_ENGINE: Final = frozenset({"fail-point", "hang-in-yield"}) | INTERRUPTIBLE
"""Faults that hold each write inside the engine from the first one on."""

MUTE: Final = frozenset({"freeze"})
"""Faults under which a member takes no command, killOp as little as any other."""


def engine_hang(command: str, namespace: str) -> tuple[str, str]:
    """The fail point that holds such writes on `namespace` inside the engine, and its data as extended JSON.

    That of inserts alone can be told the namespace.
    """
    return ENGINE_HANGS[command], f'{{"nss":"{namespace}"}}' if command == "insert" else "{}"


def assumed(fault: str, options: Sequence[str]) -> Server:
    """What the server does while the fault, with these options, acts."""
    said = " ".join(options)
    if "errorCode" in said or "closeConnection" in said:
        return Server.REFUSES
    return Server.INTERRUPTIBLE if fault in {"pause-replication", *INTERRUPTIBLE} else Server.HANGS
