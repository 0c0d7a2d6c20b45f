"""What the settings allow at most, whatever the server does; and what Kafka adds where a record takes too long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.prediction.execution import execution
from harness.prediction.settings import Settings


@dataclass(frozen=True, slots=True)
class Counts:
    """`sends` None: bounded by time (timeoutMS) and by no count. `copies` are those at once."""

    executions: int
    sends: int | None
    copies: int

    def times(self, number: int) -> Counts:
        """Of as many records at once, or as many deliveries of one."""
        sends = None if self.sends is None else self.sends * number
        return Counts(self.executions * number, sends, self.copies * number)


def bounds(settings: Settings) -> Counts:
    """One delivery of one record: sends <= 2 x executions, copies <= executions, where these rules hold."""
    executions = settings.executions
    sends = None if settings.numbered and settings.timeout is not None else executions * (2 if settings.numbered else 1)
    return Counts(executions, sends, 1 if settings.one_session else executions)


@dataclass(frozen=True, slots=True)
class Polls:
    """Times in seconds.

    `needed`: max.poll.interval.ms must be more than that, None where no interval suffices. `after_error`: between two
    polls where the first record of one fails, None where the consumer does not poll for it again. `redeliveries`: how
    often the records of a poll have been delivered anew when their first delivery is through. Each begins with all
    executions anew, while the copies of the one before go on.
    """

    records: int
    interval: float
    needed: float | None
    redeliveries: int
    after_error: float | None = None

    @property
    def suffices(self) -> bool:
        return self.needed is not None and self.needed < self.interval


def polls(settings: Settings, give_up: float | None) -> Polls:
    """max.poll.records x (longest execution x executions + waits) < max.poll.interval.ms.

    A consumer that seeks back after an error polls again before the next execution: then it is max.poll.records x
    longest execution + longest wait. (Spring's DefaultErrorHandler does so unless told otherwise, and sleeps the wait
    before it polls.) The generous way: every record of the poll takes as long as one can. Past the interval the group
    passes the records on to a consumer that polls: each of them once, then none is left until the first comes back.
    """
    records, interval, others = settings.max_poll_records, settings.max_poll_interval, settings.consumers - 1
    if give_up is None:
        return Polls(records, interval, None, others)
    needed, after_error = records * give_up, None
    if settings.seek_after_error and settings.executions > 1:
        longest = max(execution(settings, number).seconds or 0.0 for number in range(1, settings.executions + 1))
        wait = max(settings.policy.waits)
        needed, after_error = min(needed, records * longest + wait), round(longest + wait, 6)
    needed = round(needed, 6)
    redeliveries = 0 if needed < interval else max(1, min(math.ceil(needed / interval) - 1, others))
    return Polls(records, interval, needed, redeliveries, after_error)
