"""What a prediction is made from: options of driver, application and consumer, and what is assumed of the server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.drivers.retries import RetryPolicy
from harness.measures import duration
from harness.prediction.writes import WRITES, Write

CONNECT_TIMEOUT: Final = 20.0
"""pymongo's connectTimeoutMS where none is given, in seconds; its socketTimeoutMS is none: it waits for ever."""

MILLISECOND: Final = 0.001
"""Of options in milliseconds less is none: a maxTimeMS of 0 is no limit."""

MAX_POLL_RECORDS: Final = 500
MAX_POLL_INTERVAL: Final = 300.0
SESSION_TIMEOUT: Final = 45.0
"""Kafka's own defaults (consumer configuration, 3.0 and later); times in seconds."""


class Server(StrEnum):
    """What the server does from the first send on."""

    HANGS = "hangs"
    """The operation waits inside the engine and looks at no interrupt: neither maxTimeMS nor killOp ends it."""
    INTERRUPTIBLE = "hangs-interruptibly"
    """It waits for a lock, a ticket or the like: maxTimeMS ends it."""
    REFUSES = "refuses"
    """Each request is answered at once, with an error that the driver resends on; nothing is carried out."""


class Failure(StrEnum):
    """How an execution fails, as the application sees it."""

    TIMEOUT = "timeout"
    """The driver gave up waiting: NetworkTimeout."""
    MAX_TIME = "max-time"
    """Error 50, MaxTimeMSExpired."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds; None is none: the driver then waits without end. Raises ValueError.

    `policy` is the application's; `explicit_session`: all executions of a record are given one and the same session.
    `not_retryable`: failures on which the application gives up at once. `seek_after_error`: the consumer polls again
    between executions, as Spring's DefaultErrorHandler does unless told otherwise; else it retries in place.
    """

    policy: RetryPolicy
    write: Write = WRITES["insert"]
    socket_timeout: float | None = None
    connect_timeout: float | None = CONNECT_TIMEOUT
    timeout: float | None = None
    max_time: float | None = None
    retry_writes: bool = True
    explicit_session: bool = False
    not_retryable: frozenset[Failure] = frozenset()
    consumers: int = 1
    max_poll_records: int = MAX_POLL_RECORDS
    max_poll_interval: float = MAX_POLL_INTERVAL
    session_timeout: float = SESSION_TIMEOUT
    seek_after_error: bool = True
    server: Server = Server.HANGS

    def __post_init__(self) -> None:
        if self.timeout == 0:
            raise ValueError("timeoutMS 0 is no time limit and still resends without a count: nothing to predict")
        times = {
            "socketTimeoutMS": self.socket_timeout,
            "connectTimeoutMS": self.connect_timeout,
            "timeoutMS": self.timeout,
            "maxTimeMS": self.max_time,
            "max.poll.interval.ms": self.max_poll_interval,
            "session.timeout.ms": self.session_timeout,
        }
        for name, time in times.items():
            if time is not None and not time > 0:
                raise ValueError(f"{name}: expected more than 0 s, found {duration(time)}")
            if time is not None and time < MILLISECOND:
                raise ValueError(f"{name}: expected at least 1 ms, the least that is sent or kept; found {time:g} s")
        for name, count in {"consumers": self.consumers, "max.poll.records": self.max_poll_records}.items():
            if count < 1:
                raise ValueError(f"{name}: expected at least 1, found {count}")
        if self.explicit_session and not self.write.acknowledged:
            raise ValueError("pymongo refuses an unacknowledged write in an explicit session")

    @property
    def numbered(self) -> bool:
        """Whether a send carries lsid and txnNumber: it may be resent, and the server knows the two for one."""
        return self.write.numbered and self.retry_writes

    @property
    def one_session(self) -> bool:
        """Whether executions wait for each other: only what has a number checks its session out."""
        return self.explicit_session and self.numbered

    @property
    def sent_max_time(self) -> float | None:
        """The maxTimeMS of the application as the server gets it; with timeoutMS the driver sends its own instead."""
        return self.max_time if self.write.takes_max_time and self.timeout is None else None

    @property
    def max_time_first(self) -> bool:
        """Whether the server is to stop the operation before the driver gives up waiting."""
        limit = self.sent_max_time
        return limit is not None and (self.socket_timeout is None or limit < self.socket_timeout)

    @property
    def executions(self) -> int:
        """Of one record at most: the application retries nothing that it takes for done."""
        return self.policy.executions if self.write.acknowledged else 1
