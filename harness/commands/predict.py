"""`predict`: how often one write may be sent and run under these settings. Nobody is connected to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

import typer

from clusters.errors import Refused
from clusters.uri import driver_options
from harness.drivers import retries
from harness.measures import seconds
from harness.output import as_json
from harness.prediction import WRITES, Failure, Server, Settings
from harness.prediction import predict as foretell
from harness.prediction.settings import CONNECT_TIMEOUT, MAX_POLL_RECORDS
from harness.report import predicted

Choice = TypeVar("Choice", bound=StrEnum)

DEFAULTS: Final[Mapping[str, Any]] = {
    "socketTimeoutMS": None,
    "connectTimeoutMS": CONNECT_TIMEOUT,
    "timeoutMS": None,
    "retryWrites": True,
    "w": None,
}
"""The driver's options that a prediction goes by, with pymongo's defaults; of a URI nothing else is read."""

FAILURES = ", ".join(Failure)
SERVERS = ", ".join(Server)


def predict(
    options: str = typer.Argument(
        None, metavar="URI|OPTIONS", show_default=False, help="As --uri, or its options alone: 'socketTimeoutMS=30000'."
    ),
    uri: str = typer.Option(None, "--uri", help="A URI: its options are read, nobody is connected to."),
    retry: str = typer.Option(
        "spring-default",
        "--retry",
        metavar="POLICY",
        help="The application's retries: fixed(1s,3), exponential(1s,2,10s,5,jitter=0.5), "
        f"{', '.join(retries.PRESETS)}.",
    ),
    write: str = typer.Option(None, "--write", metavar="KIND", help=f"{', '.join(WRITES)}. [default: insert]"),
    server: str = typer.Option("hangs", "--server", help=f"What is assumed of it: {SERVERS}."),
    socket_timeout: str = typer.Option(None, metavar="DURATION", help="socketTimeoutMS; 0 is none. [default: none]"),
    connect_timeout: str = typer.Option(None, metavar="DURATION", help="connectTimeoutMS; 0 is none. [default: 20s]"),
    timeout: str = typer.Option(None, metavar="DURATION", help="timeoutMS. [default: none]"),
    max_time: str = typer.Option(None, metavar="DURATION", help="maxTimeMS of the write; 0 is none. [default: none]"),
    retry_writes: bool = typer.Option(None, "--retry-writes/--no-retry-writes", help="[default: on]"),
    explicit_session: bool = typer.Option(
        False, "--explicit-session", help="All executions of a record are given one and the same session."
    ),
    not_retryable: list[str] = typer.Option(
        [], "--not-retryable", help=f"The application gives up on it at once: {FAILURES} (may be repeated)."
    ),
    consumers: int = typer.Option(1, min=1, max=100_000, help="Consumers, each at a record of its own."),
    max_poll_records: int = typer.Option(MAX_POLL_RECORDS, min=1, max=1_000_000_000, help="max.poll.records"),
    max_poll_interval: str = typer.Option("5m", metavar="DURATION", help="max.poll.interval.ms"),
    session_timeout: str = typer.Option("45s", metavar="DURATION", help="session.timeout.ms"),
    seek_after_error: bool = typer.Option(
        True,
        "--seek-after-error/--no-seek-after-error",
        help="The consumer polls again between executions, as Spring's DefaultErrorHandler does; else it retries in "
        "place.",
    ),
    json: bool = typer.Option(False, "--json", help="JSON for other programs instead of text."),
) -> None:
    """Predict from settings alone how often one write is sent and run, and for how long; connects to nobody.

    Durations are 500ms, 5s or 2m, within POLICY too; a number alone is seconds. In a URI they are milliseconds.
    """
    if options is not None and uri is not None:
        raise Refused("a URI and --uri say the same thing: leave one of them out")
    text = options if uri is None else uri
    read = {**DEFAULTS, **({} if text is None else driver_options(text, DEFAULTS))}
    try:
        settings = Settings(
            policy=retries.parse(retry),
            write=WRITES[_write(write, read)],
            socket_timeout=_limit("--socket-timeout", socket_timeout, read["socketTimeoutMS"]),
            connect_timeout=_limit("--connect-timeout", connect_timeout, read["connectTimeoutMS"]),
            timeout=read["timeoutMS"] if timeout is None else _seconds("--timeout", timeout),
            max_time=_limit("--max-time", max_time, None),
            retry_writes=read["retryWrites"] if retry_writes is None else retry_writes,
            explicit_session=explicit_session,
            not_retryable=frozenset(_choice("--not-retryable", one, Failure) for one in not_retryable),
            consumers=consumers,
            max_poll_records=max_poll_records,
            max_poll_interval=_seconds("--max-poll-interval", max_poll_interval),
            session_timeout=_seconds("--session-timeout", session_timeout),
            seek_after_error=seek_after_error,
            server=_choice("--server", server, Server),
        )
    except ValueError as error:
        raise Refused(str(error)) from None
    prediction = foretell(settings)
    if json:
        as_json(prediction.plain())
    else:
        predicted.show(prediction)


def _write(given: str | None, read: Mapping[str, Any]) -> str:
    """A URI with w=0 acknowledges nothing, whatever is written through it."""
    unacknowledged = read["w"] == 0
    if unacknowledged and given not in (None, "w0"):
        raise Refused(f"--write {given}: with w=0 in the URI nothing is acknowledged, expected w0")
    name = given or ("w0" if unacknowledged else "insert")
    if name not in WRITES:
        raise Refused(f"--write {name}: expected one of {', '.join(WRITES)}")
    return name


def _limit(option: str, given: str | None, read: float | None) -> float | None:
    """A time limit in seconds, where 0 means none; what is given on the command line goes first."""
    return read if given is None else _seconds(option, given) or None


def _seconds(option: str, given: str) -> float:
    try:
        return seconds(given)
    except ValueError as error:
        raise Refused(f"{option} {given}: {error}") from None


def _choice(option: str, given: str, choices: type[Choice]) -> Choice:
    try:
        return choices(given)
    except ValueError:
        raise Refused(f"{option} {given}: expected one of {', '.join(choices)}") from None
