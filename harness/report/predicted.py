"""A prediction for people: the course of one record as a table, the counts beside it, then what to know about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.measures import duration, times
from harness.output import say, table
from harness.prediction import Polls, Prediction, Server, Settings

ASSUMED: Final = {
    Server.HANGS: "the server hangs, and nothing interrupts what it does",
    Server.INTERRUPTIBLE: "the server hangs where it looks for interrupts, waiting for a lock or a ticket",
    Server.REFUSES: "the server answers each request at once with an error that the driver resends on",
}


def show(prediction: Prediction) -> None:
    """Print it."""
    say(f"settings  {', '.join(_settings(prediction.settings))}")
    say(f"assumed   {ASSUMED[prediction.settings.server]}")
    say("")
    rows = [(duration(row.at), row.client, row.server) for row in prediction.timeline.rows]
    table(("time", "client", "server"), rows)
    if "(A, 1)" in prediction.timeline.rows[0].client:
        say("(A, 1): session A, txnNumber 1; the server takes two sends of one number for one write")
    say("")
    table(*counts(prediction))
    say("")
    for line in _lines(prediction):
        say(line)


def counts(prediction: Prediction) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Columns and rows: one record as assumed, and what it and several may come to whatever the server does."""
    settings, course = prediction.settings, prediction.timeline
    columns = ["", "as assumed", "at most"]
    of = [(course.executions, course.sends, course.copies)]
    bounds = [prediction.bounds]
    if settings.consumers > 1:
        columns.append(f"{settings.consumers} consumers")
        bounds.append(prediction.all_consumers)
    again = prediction.polls.redeliveries
    if again:
        columns.append(f"redelivered {times(again)}")
        bounds.append(prediction.redelivered)
    of += [(one.executions, one.sends, one.copies) for one in bounds]
    names = ("executions", "sends", "copies at once")
    rows = [(name, *(_count(one[index]) for one in of)) for index, name in enumerate(names)]
    end = "never" if course.give_up is None else duration(course.give_up)
    if course.give_up and (settings.policy.jitter or settings.server is Server.REFUSES):
        end += " at the latest"
    return columns, [*rows, ("given up after", end)]


def _count(number: int | None) -> str:
    return "no count" if number is None else str(number)


def _settings(settings: Settings) -> Iterator[str]:
    yield settings.write.name
    yield f"retryWrites {'on' if settings.retry_writes else 'off'}"
    limits = {
        "socketTimeoutMS": settings.socket_timeout,
        "connectTimeoutMS": settings.connect_timeout,
        "timeoutMS": settings.timeout,
        "maxTimeMS": settings.max_time,
    }
    yield from (f"{name} {'none' if time is None else duration(time)}" for name, time in limits.items())
    if settings.explicit_session:
        yield "one explicit session"
    yield f"retries {settings.policy}"
    if settings.not_retryable:
        yield f"none after {', '.join(sorted(settings.not_retryable))}"


def _lines(prediction: Prediction) -> Iterator[str]:
    yield f"one delivery of a record leaves at most: {prediction.leaves}"
    yield _polls(prediction.polls)
    yield (
        f"a consumer that dies is missed after session.timeout.ms, {duration(prediction.settings.session_timeout)}: "
        "its records are delivered anew, and what it has sent runs on (measured on 6.0.5: a write whose client is gone)"
    )
    if prediction.rules:
        yield ""
        yield "rules that do not hold, and when"
    for rule in prediction.rules:
        yield f"  {rule.rule}: {rule.why}"
        yield f"      {rule.ground}"
    if prediction.warnings:
        yield ""
        yield "warnings"
    for warning in prediction.warnings:
        yield f"  {warning.text}"
        yield f"      {warning.ground}"


def _polls(polls: Polls) -> str:
    records = "1 record" if polls.records == 1 else f"{polls.records} records"
    if polls.needed is None:
        return f"max.poll.interval.ms: no interval suffices, it is {duration(polls.interval)} for polls of {records}"
    suffices = "suffices" if polls.suffices else "does not suffice"
    slow = "" if polls.records == 1 else ", each as slow as it can be"
    line = (
        f"max.poll.interval.ms: more than {duration(polls.needed)} is needed for polls of {records}{slow}; "
        f"{duration(polls.interval)} {suffices}"
    )
    if polls.after_error is not None and polls.records > 1:
        line += f" (where the first record of a poll fails, the next poll comes after {duration(polls.after_error)})"
    return line
