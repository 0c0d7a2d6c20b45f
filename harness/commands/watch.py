"""`watch`: look at a cluster, anybody's, for change streams that are silent and for copies of one write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import typer

from clusters.errors import Refused
from clusters.uri import Uri, needed
from harness import exits, measures
from harness.history import Event
from harness.interrupts import Interrupted, interruptible
from harness.output import as_json_line, complain, nobody_reads, out, say
from harness.report.live import screen
from harness.watching import telling
from harness.watching.judging import Picture
from harness.watching.seats import Seats, credentials, find, found_anew
from harness.watching.showing import Stage
from harness.watching.watch import Pace, Told, Watch

SUMMARY_EVERY = 60.0
"""Seconds after which a watch that writes lines says that it is still there."""


def watch(
    uri: str = typer.Option(None, "--uri", help="The cluster, by its URI without a password; else MONGODB_URI."),
    uri_file: Path = typer.Option(None, "--uri-file", metavar="FILE", help="The same, in a file that holds the URI."),
    member_credentials: Path = typer.Option(
        None,
        "--member-credentials",
        metavar="FILE",
        help="A file with a URI whose user is let in by the members, where the shards have users of their own.",
    ),
    once: bool = typer.Option(
        False, "--once", help="One look: exit 1 if something is wrong, 2 if too little was seen."
    ),
    json: bool = typer.Option(False, "--json", help="A line of JSON for each look and each alarm."),
    interval: str = typer.Option("1s", "--interval", metavar="DURATION", help="From one look to the next."),
    overdue: str = typer.Option(
        "3s", "--overdue", metavar="DURATION", help="How far past its maxTimeMS a getMore must be to hang."
    ),
    deadline: str = typer.Option("2s", "--deadline", metavar="DURATION", help="How long a member's answer is awaited."),
    metrics: int = typer.Option(None, "--metrics", metavar="PORT", help="Serve Prometheus on 127.0.0.1:PORT/metrics."),
) -> None:
    """Watch any cluster for silent change streams and piles of copies of one write; reads only, runs no fault."""
    pace = Pace(
        every=_seconds("--interval", interval, least=0.2),
        past=_seconds("--overdue", overdue, least=1.0),
        patience=_seconds("--deadline", deadline, least=0.1),
    )
    if once and metrics is not None:
        raise Refused("--once looks once and ends, --metrics serves until it is ended: leave one of them out")
    if metrics is not None and not 0 < metrics < 65536:
        raise Refused(f"--metrics {metrics}: expected a port from 1 to 65535")
    where = needed(uri, uri_file)
    who = None if member_credentials is None else credentials(member_credentials)
    try:
        code = asyncio.run(
            interruptible(_watched(where, who, pace, once=once, json=json, metrics=metrics), quietly=True)
        )
    except Interrupted:
        code = exits.INTERRUPTED
    raise typer.Exit(code)


async def _watched(uri: Uri, who: Uri | None, pace: Pace, *, once: bool, json: bool, metrics: int | None) -> int:
    seats = await find(uri, who)
    advise = telling.Advice(seats.hosts)
    tell: Told = _AsJson(advise) if json else _AsLines(advise)
    with _serving(metrics) as served:
        if not json:
            say(_title(seats, pace, once=once))
        if once:
            return _verdict(await Watch(seats, pace, tell).once(), json=json)
        with _shown(seats) if out.is_terminal and not json else nullcontext() as shown:
            try:
                await _watch_on(uri, who, seats, pace, _all(tell, served, shown), advise)
            except* _NobodyReads:
                pass
    return exits.AS_EXPECTED


async def _watch_on(uri: Uri, who: Uri | None, seats: Seats, pace: Pace, tell: Told, advise: telling.Advice) -> None:
    """Until cancelled, or until nobody reads what is told. A cluster that has changed is watched from the start."""
    while True:
        watching = asyncio.create_task(Watch(seats, pace, tell).go_on(), name="watch")
        changed = asyncio.create_task(found_anew(uri, who, seats), name="whom to watch")
        try:
            await asyncio.wait((watching, changed), return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                await watching
            seats = await changed
            advise.hosts = seats.hosts
        finally:
            watching.cancel()
            changed.cancel()
            await asyncio.wait((watching, changed))


def _title(seats: Seats, pace: Pace, *, once: bool) -> str:
    server = seats.cluster.server
    return (
        f"watching {seats.cluster.name} ({server.version}, router {server.router}): "
        f"{len(seats.seats)} members and routers, {'once' if once else f'every {pace.every:g} s'}"
    )


def _verdict(picture: Picture, *, json: bool) -> int:
    if not json:
        say(telling.summary(picture))
        for line in telling.unseen(picture):
            complain(line)
    if picture.wrong:
        return exits.NOT_AS_EXPECTED
    if picture.unseen:
        return exits.UNKNOWN
    if not json:
        say(telling.HEALTHY)
    return exits.AS_EXPECTED


class _AsJson:
    def __init__(self, advise: telling.Advice) -> None:
        self._advise = advise

    def __call__(self, picture: Picture, events: Sequence[Event]) -> None:
        as_json_line(telling.document(picture, round(time.time(), 3)))
        for event in events:
            as_json_line(telling.plain(event, self._advise.on([event], picture)))
        _flush()


class _AsLines:
    """What happens, and now and then that nothing does."""

    def __init__(self, advise: telling.Advice) -> None:
        self._advise = advise
        self._said = time.monotonic()
        self._unseen: set[str] = set()

    def __call__(self, picture: Picture, events: Sequence[Event]) -> None:
        for line in telling.told(events, picture, self._advise):
            say(line)
        now = time.monotonic()
        if now - self._said >= SUMMARY_EVERY:
            self._said = now
            say(telling.summary(picture))
        unseen = set(picture.unseen)
        for name in sorted(unseen - self._unseen):
            say(f"not seen: {name}: {picture.unseen[name]}")
        for name in sorted(self._unseen - unseen):
            say(f"seen again: {name}")
        self._unseen = unseen
        _flush()


class _NobodyReads(Exception):
    """What is told goes nowhere any more."""


def _flush() -> None:
    out.file.flush()
    if nobody_reads():
        raise _NobodyReads


def _all(*told: Told | None) -> Told:
    def tell(picture: Picture, events: Sequence[Event]) -> None:
        for one in told:
            if one is not None:
                one(picture, events)

    return tell


@contextmanager
def _shown(seats: Seats) -> Iterator[Told]:
    """The screen that runs have as well, below the lines."""
    stage = Stage(f"{seats.cluster.name} {seats.cluster.server.version}")
    with screen(out, stage.scene):
        yield stage.take


@contextmanager
def _serving(port: int | None) -> Iterator[Told | None]:
    if port is None:
        yield None
        return
    from harness.watching.metrics import Metrics, served

    metrics = Metrics()
    with served(metrics, port):
        yield metrics.take


def _seconds(option: str, given: str, *, least: float) -> float:
    try:
        seconds = measures.seconds(given)
    except ValueError as error:
        raise Refused(f"{option} {given}: {error}") from None
    if not least <= seconds <= 3600:
        raise Refused(f"{option} {given}: expected at least {least:g} s and at most an hour")
    return seconds
