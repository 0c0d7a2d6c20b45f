"""One execution of a logical write against the server that is assumed: when it is resent, when and how it fails.

As it was seen on mongod 6.0.5 with pymongo 4.20.1; other servers and drivers may do otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.prediction.settings import Failure, Server, Settings

RESELECTION: Final = 10.0
"""Seconds until a server is selected again, at most: measured on 6.0.5 were 0.5 s after a closed connection and 10 s,
which is heartbeatFrequencyMS, after a state change (error 91)."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Seconds from its first send.

    `resent`: when the driver resends, None if it does not. `seconds`: when it fails, None if it never ends.
    `failure`: None where the application takes it for done. `enters`: a new copy works inside the engine.
    `stopped`: that copy has ended when the execution fails. `counted`: False where it is resent until time is over.
    """

    resent: float | None
    seconds: float | None
    failure: Failure | None
    enters: bool = True
    stopped: bool = False
    counted: bool = True

    @property
    def sends(self) -> int | None:
        """None: there is no count, only a time."""
        if not self.counted:
            return None
        return 1 if self.resent is None else 2


def execution(settings: Settings, number: int) -> Execution:
    """Execution `number` of a record, from 1."""
    if not settings.write.acknowledged:
        return Execution(None, 0.0, None, enters=settings.server is not Server.REFUSES)
    if settings.server is Server.REFUSES:
        return _refused(settings, number)
    interruptible = settings.server is Server.INTERRUPTIBLE
    alone = interruptible and (settings.timeout is not None or settings.max_time_first)
    enters = number == 1 or alone or not settings.one_session
    if settings.timeout is not None:
        return Execution(None, settings.timeout, Failure.TIMEOUT, enters, stopped=interruptible)
    if settings.max_time_first and (interruptible or not enters):
        # the wait for a session that is taken is itself ended by maxTimeMS, whatever holds the session
        return Execution(None, settings.sent_max_time, Failure.MAX_TIME, enters, stopped=True)
    if settings.socket_timeout is None:
        return Execution(None, None, None, enters)
    if not settings.numbered:
        return Execution(None, settings.socket_timeout, Failure.TIMEOUT, enters)
    if settings.max_time_first and settings.sent_max_time is not None:
        # measured: error 50 after 2.2 s of 1.5 s and 0.7 s, the resend's, while the first send still runs
        seconds = settings.socket_timeout + settings.sent_max_time
        return Execution(settings.socket_timeout, seconds, Failure.MAX_TIME, enters)
    return Execution(settings.socket_timeout, 2 * settings.socket_timeout, Failure.TIMEOUT, enters)


def _refused(settings: Settings, number: int) -> Execution:
    """Also the first send of a later execution waits until a server is selected."""
    selection = 0.0 if number == 1 else RESELECTION
    if settings.timeout is not None:
        seconds = settings.timeout if settings.numbered else min(selection, settings.timeout)
        return Execution(None, seconds, Failure.REFUSED, enters=False, counted=not settings.numbered)
    if not settings.numbered:
        return Execution(None, selection, Failure.REFUSED, enters=False)
    return Execution(selection + RESELECTION, selection + RESELECTION, Failure.REFUSED, enters=False)
