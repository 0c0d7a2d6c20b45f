"""N change-stream consumers, as separate consumers of production would be; everything they see goes into the history.

A consumer polls `try_next()` in one task (cancelling a pending `next()` would close the stream) and never decides
whether it is silent: that is for those who watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

from harness.drivers.clients import (
    ChangeStream,
    Client,
    Driver,
    OptionValue,
    ReadPreference,
    close_client,
    open_client,
    read_preference,
    watch,
)
from harness.drivers.errors import error_fields, one_line
from harness.drivers.resumes import ResumeListener, token_data
from harness.history import END_OF_RUN, Recorder
from harness.measures import DEFAULT_AWAIT_MS

SOURCE: Final = "streams"

BACK_OFF: Final = (0.1, 2.0)
"""Seconds between attempts after an error: the first, and the bound that doubling stops at."""

YIELD_EVERY: Final = 16
"""Events of one batch handled in a row before other tasks get their turn: a batch holds up to 16 MB of events, and
pymongo hands them out without ever suspending."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What the consumers are. `full_document` "default" asks for no post-image; `tags` is one tag set."""

    uri: str = field(repr=False)
    namespace: str
    count: int
    run: str
    read_preference: str = "primary"
    tags: Mapping[str, str] | None = None
    full_document: str = "updateLookup"
    max_await_time_ms: int | None = None
    driver_options: Mapping[str, OptionValue] = field(default_factory=dict)
    shared_client: bool = False
    driver: Driver = "pymongo"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{number}" for number in range(1, self.count + 1))

    def preference(self) -> ReadPreference:
        return read_preference(self.read_preference, self.tags)

    @property
    def await_seconds(self) -> float:
        """How long a healthy `try_next()` takes when there is nothing."""
        return (DEFAULT_AWAIT_MS if self.max_await_time_ms is None else self.max_await_time_ms) / 1000


class StreamsNotOpen(Exception):
    """Not every stream was open by the deadline: says which, and the last error of each."""


class Consumer:
    """One stream. Whatever closes it, it goes on from its last token: it loses and doubles nothing by itself."""

    def __init__(self, name: str, plan: StreamPlan, client: Client, recorder: Recorder) -> None:
        self.name = name
        self.opening = False
        self.opened = asyncio.Event()
        self.events = 0
        self.last_error = "no answer"
        self._plan = plan
        self._client = client
        self._recorder = recorder
        self._stream: ChangeStream | None = None
        self._token: Mapping[str, Any] | None = None
        self._operation_time: Timestamp | None = None
        self._last_op = ""
        self._back_off = BACK_OFF[0]

    async def consume(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set, or cancelled."""
        handled = 0
        try:
            while not stopping.is_set():
                where = "next" if self._stream is not None else "open"
                try:
                    stream = self._stream or await self._open()
                    change = await stream.try_next()
                except PyMongoError as error:
                    self._failed(error, where)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._back_off):
                            await stopping.wait()
                    self._back_off = min(2 * self._back_off, BACK_OFF[1])
                    continue
                self._back_off = BACK_OFF[0]
                self._took(stream, change)
                handled += 1
                if handled % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        finally:
            await self._end()

    def answered(self, operation_time: Timestamp | None) -> None:
        if self._operation_time is None:
            self._operation_time = operation_time

    def resumed_by_driver(self, position: Any, cause: Mapping[str, Any]) -> None:
        self._recorder.record("stream.resumed", SOURCE, stream=self.name, by="driver", token=position, **cause)

    async def _open(self) -> ChangeStream:
        plan = self._plan
        database, _, name = plan.namespace.partition(".")
        collection: Any = self._client[database][name]
        target = collection.with_options(read_preference=plan.preference())
        self.opening = True
        try:
            stream = await watch(
                target,
                full_document=None if plan.full_document == "default" else plan.full_document,
                max_await_time_ms=plan.max_await_time_ms,
                comment={"run": plan.run, "stream": self.name},
                **self._position(),
            )
        finally:
            self.opening = False
        resumed = self.opened.is_set()
        self._stream = stream
        self._recorder.record(
            "stream.opened",
            SOURCE,
            stream=self.name,
            read_preference=plan.read_preference,
            tags=dict(plan.tags or {}),
            full_document=plan.full_document,
            resumed=resumed,
        )
        if resumed:
            self._recorder.record(
                "stream.resumed", SOURCE, stream=self.name, by="consumer", token=token_data(self._token)
            )
        self._token = stream.resume_token or self._token
        self.opened.set()
        return stream

    def _position(self) -> dict[str, Any]:
        """Where a new cursor starts, so that nothing is lost or doubled."""
        if self._token is not None:
            # After an invalidate only startAfter is accepted (manual: Change Streams, "startAfter").
            return {"start_after" if self._last_op == "invalidate" else "resume_after": self._token}
        if self._operation_time is not None and self.opened.is_set():
            return {"start_at_operation_time": self._operation_time}
        return {}

    def _took(self, stream: ChangeStream, change: Mapping[str, Any] | None) -> None:
        self._token = stream.resume_token or self._token
        if change is None:
            self._recorder.record(
                "stream.empty", SOURCE, stream=self.name, token=token_data(self._token), alive=stream.alive
            )
        else:
            self.events += 1
            self._last_op = change["operationType"]
            cluster_time = change.get("clusterTime")
            self._recorder.record(
                "stream.event",
                SOURCE,
                stream=self.name,
                key=change.get("documentKey", {}).get("_id"),
                # Never from the post-image: it is read later than the event happened and may be newer.
                seq=change.get("updateDescription", {}).get("updatedFields", {}).get("seq"),
                op=self._last_op,
                image=change.get("fullDocument") is not None,
                token=token_data(change["_id"]),
                cluster_time=[cluster_time.time, cluster_time.inc] if cluster_time is not None else None,
            )
        if not stream.alive:
            # After killCursors or killOp pymongo raises once, then answers None for ever (measured, 4.20).
            self._lost("invalidated" if self._last_op == "invalidate" else "closed without an error")

    def _failed(self, error: PyMongoError, where: str) -> None:
        fields = error_fields(error)
        self.last_error = fields["error"]
        self._recorder.record("stream.error", SOURCE, stream=self.name, where=where, **fields)
        if self._stream is not None and not self._stream.alive:
            self._lost("closed by the driver after an error")

    def _lost(self, reason: str) -> None:
        self._stream = None
        self._recorder.record("stream.closed", SOURCE, stream=self.name, reason=reason)

    async def _end(self) -> None:
        stream, self._stream = self._stream, None
        try:
            if stream is not None:
                with suppress(PyMongoError, TimeoutError):
                    async with asyncio.timeout(1.0):
                        await stream.close()
        finally:
            # Also where the closing itself is cancelled, because a frozen server owes the answer to it.
            if self.opened.is_set():
                self._recorder.record("stream.closed", SOURCE, stream=self.name, reason=END_OF_RUN)


class Streams:
    """All consumers of a run. Raises DriverOptionError at once if the plan's options cannot be."""

    def __init__(self, recorder: Recorder, plan: StreamPlan) -> None:
        self.plan = plan
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[Client] = []
        self.consumers: dict[str, Consumer] = {}
        listener = ResumeListener()
        for name in plan.names:
            if not self._clients or not plan.shared_client:
                listener = ResumeListener()
                self._clients.append(
                    open_client(
                        plan.uri,
                        preference=plan.preference(),
                        options=plan.driver_options,
                        listeners=[listener],
                        app_name=f"mongofault {plan.run} {name}"[:128],
                        driver=plan.driver,
                    )
                )
            consumer = self.consumers[name] = Consumer(name, plan, self._clients[-1], recorder)
            listener.add(name, consumer)

    @property
    def events(self) -> int:
        """Events delivered so far, over all streams."""
        return sum(consumer.events for consumer in self.consumers.values())

    async def start(self, *, deadline: float = 30.0) -> None:
        """Returns when all streams are open. Raises StreamsNotOpen after `deadline` seconds, everything closed."""
        self._tasks = [
            asyncio.create_task(consumer.consume(self._stopping), name=f"stream {name}")
            for name, consumer in self.consumers.items()
        ]
        all_open = asyncio.create_task(self._all_open(), name="streams open")
        try:
            # A consumer only ends by itself when something is wrong with it: no use in waiting on then.
            first: list[asyncio.Future[Any]] = [all_open, *self._tasks]
            await asyncio.wait(first, timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
            if all_open.done():
                return
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            all_open.cancel()
        waiting = [one for one in self.consumers.values() if not one.opened.is_set()]
        await self.stop()
        raise StreamsNotOpen(
            f"{len(waiting)} of {len(self.consumers)} streams not open within {deadline:g} s, "
            f"first {waiting[0].name}: {waiting[0].last_error}"
        )

    async def _all_open(self) -> None:
        for consumer in self.consumers.values():
            await consumer.opened.wait()

    async def stop(self, *, deadline: float = 5.0) -> None:
        """Close all streams and clients within about `deadline` seconds, also if router and members are frozen.

        Raises what ended a consumer out of turn, if anything did.
        """
        self._stopping.set()
        pending: set[asyncio.Task[None]] = set(self._tasks)
        if pending:
            _, pending = await asyncio.wait(pending, timeout=min(self.plan.await_seconds + 0.5, deadline / 3))
        # The first cancellation lands in the getMore; pymongo then sends killCursors and waits for the reply, which
        # a frozen server owes for ever: that takes a second one.
        for _attempt in range(3):
            for task in pending:
                task.cancel()
            if pending:
                _, pending = await asyncio.wait(pending, timeout=deadline / 10)
        await asyncio.gather(*(close_client(client, deadline=deadline / 10) for client in self._clients))
        failures = [
            f"{task.get_name()}: {one_line(error)}"
            for task in self._tasks
            if task.done() and not task.cancelled() and (error := task.exception()) is not None
        ]
        self._tasks = []
        if failures:
            raise RuntimeError(f"{len(failures)} consumers ended out of turn, first {failures[0]}")
