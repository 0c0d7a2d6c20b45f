"""Rules of thumb on retries, and when they do not hold.

The rules: sends <= 2 x executions; copies <= executions; a resend does no work of its own; each group of lsid and
txnNumber in `$currentOp` is a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.prediction.settings import Settings


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold for the settings, `why` and when, and the case in which that was measured."""

    name: str
    rule: str
    why: str
    ground: str


def broken(settings: Settings) -> tuple[Broken, ...]:
    return tuple(_broken(settings))


def _broken(settings: Settings) -> Iterator[Broken]:
    if settings.numbered and settings.timeout is not None:
        yield Broken(
            "timeout",
            "sends <= 2 x executions",
            "with timeoutMS the driver resends until the time is over; a server that hangs eats it with one send",
            "measured on 6.0.5: each connection closed, timeoutMS 2000: 4 sends; an error with RetryableWriteError, "
            "timeoutMS 1000: 1176 sends in 1 s; hanging, timeoutMS 3000: 1 send",
        )
    if settings.write.acknowledged and settings.retry_writes:
        unnumbered = "" if settings.numbered else "; of writes without a number this is read in pymongo's source alone"
        yield Broken(
            "overload",
            "sends <= 2 x executions",
            "on an error with the labels RetryableError and SystemOverloadedError the driver resends more than once",
            f"measured on 6.0.5: error 462 with these labels: 3 sends of one execution{unnumbered}",
        )
    if settings.numbered and settings.write.name == "insert-business-id" and settings.executions > 1:
        yield Broken(
            "duplicate-key",
            "a resend does no work of its own; copies <= executions",
            "an insert that fails leaves no record of its txnNumber, and its resend runs again: "
            "not more at once, but more in all",
            "measured on 6.0.5: fixed _id, 4 executions: 8 sends, 7 copies in all, 1 document",
        )
    if settings.numbered and settings.sent_max_time is not None:
        yield Broken(
            "interrupted",
            "a resend does no work of its own",
            "an operation that maxTimeMS has ended leaves no record of its txnNumber, and its resend runs it again "
            "with a new deadline",
            "measured on 6.0.5: process stopped with the operation inside the engine: when the process went on, "
            "the operation failed and its resend was carried out",
        )
    if settings.one_session:
        yield Broken(
            "one-session",
            "each group of lsid and txnNumber is a copy",
            "executions in one explicit session wait for each other: there are as many groups, and one copy",
            "measured on 6.0.5: 4 executions: 8 sends, 4 groups, 1 copy in the engine",
        )
