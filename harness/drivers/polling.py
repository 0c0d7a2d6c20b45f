"""One consumer's loop: poll, execute each record, retry by the policy, dead-letter what does not succeed, commit.

The ways of Spring Kafka's listener container with its DefaultErrorHandler. An expelled consumer is not stopped: it goes
on with the records it has, as a zombie, until it polls. It knows no faults, and counts nothing at the server.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pymongo.errors import PyMongoError

from harness.drivers.errors import one_line
from harness.drivers.executions import SOURCE, is_one_of
from harness.drivers.kafka import (
    CommitFailed,
    Consumer,
    Group,
    RebalanceInProgress,
    Record,
    TopicPartition,
)
from harness.drivers.retries import RetryPolicy
from harness.history import Recorder

POLL: Final = 0.1
"""Seconds a poll waits for records, and the pieces in which a back-off is polled through (Spring's ListenerUtils)."""

BackOff = Literal["poll", "sleep"]
AckMode = Literal["batch", "record"]
Happened = Literal["polled", "redelivered", "processed", "dead", "committed", "commit failed"]
Execute = Callable[[str], Awaitable[Any]]
"""One execution of the named write; raises PyMongoError where it failed. Anything else ends the loop."""


@dataclass(frozen=True, slots=True)
class Handling:
    """What is done about errors, and when offsets are committed.

    `seek_after_error`: between two executions the consumer seeks back and polls again, so that the record and those
    behind it are delivered again; else it sleeps where it is. `back_off`, with it: `poll` pauses the partitions and
    polls on meanwhile (Spring's ContainerPausingBackOffHandler), `sleep` does not poll meanwhile (its default).
    `not_retryable`: names of error classes, codes, names of codes; these go to the dead letters at once. `ack_mode`:
    offsets are committed before the next poll, or after each record. `seed` fixes what jitter draws.
    """

    policy: RetryPolicy
    seek_after_error: bool = True
    back_off: BackOff = "poll"
    not_retryable: frozenset[str | int] = frozenset()
    ack_mode: AckMode = "batch"
    seed: int = 0


class Book:
    """What became of the records, over all consumers: recorded, and counted for whoever waits for the end."""

    def __init__(self, recorder: Recorder) -> None:
        self.counts: Counter[Happened] = Counter()
        self.settled: set[str] = set()
        """Names of the records that were processed or given up at least once."""
        self.news = asyncio.Event()
        self._recorder = recorder
        self._had: dict[str, str] = {}

    def delivered(self, record: Record, consumer: str) -> None:
        before = self._had.get(record.name)
        self._had[record.name] = consumer
        if before is None:
            self.happened("polled", record, consumer)
        else:
            self.happened("redelivered", record, consumer, f"before at {before}")

    def happened(self, what: Happened, record: Record, consumer: str, detail: str | None = None) -> None:
        self.counts[what] += 1
        if what in ("processed", "dead"):
            self.settled.add(record.name)
        self._recorder.record("record", SOURCE, write=record.name, what=what, consumer=consumer, detail=detail)
        self.news.set()


@dataclass(slots=True)
class _Failing:
    """A record that failed, at the head of its partition; Spring's FailedRecordTracker keeps one for each too."""

    offset: int
    began: float
    waits: Sequence[float]
    retries: int = 0


@dataclass(slots=True)
class _Pending:
    """Settled records that are not committed yet, by partition and in order."""

    records: dict[TopicPartition, list[Record]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        self.records.setdefault(record.at, []).append(record)

    def take(self, partitions: Sequence[TopicPartition] | None = None) -> list[Record]:
        taken = list(self.records) if partitions is None else [one for one in partitions if one in self.records]
        return [record for one in taken for record in self.records.pop(one)]


class _Stopped(Exception):
    """The loop is to end: nothing is begun any more."""


class PollLoop:
    """`run` it in a task of its own; `stop` lets it end after the execution that it is in."""

    def __init__(self, group: Group, name: str, execute: Execute, handling: Handling, book: Book) -> None:
        self.name = name
        self.consumer = Consumer(group, name, self)
        self._log = group.log
        self._execute = execute
        self._handling = handling
        self._book = book
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._pending = _Pending()
        self._failing: dict[TopicPartition, _Failing] = {}
        self._backing_off = False

    async def run(self) -> None:
        """Until `stop`; it leaves the group then. Raises KafkaError, and what is neither its nor the driver's error."""
        try:
            while not self._stopping.is_set():
                records = await self.consumer.poll(POLL)
                for record in records:
                    self._book.delivered(record, self.name)
                await self._process(records)
                self._commit()
        except _Stopped:
            self._commit()
        finally:
            self.consumer.close()

    def stop(self) -> None:
        self._stopping.set()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if self._backing_off:
            # A poll of a back-off must bring no records: nobody would process them.
            self.consumer.pause(partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._commit()
        self._give_up(self._pending.take(partitions), "revoked")

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_up(self._pending.take(partitions), "lost")

    async def _process(self, records: Sequence[Record]) -> None:
        for number, record in enumerate(records):
            if self._stopping.is_set():
                raise _Stopped
            if not self._handling.seek_after_error:
                await self._process_in_place(record)
            elif not await self._process_seeking(record, records[number:]):
                return
            if self._handling.ack_mode == "record":
                self._commit()

    async def _process_in_place(self, record: Record) -> None:
        handling = self._handling
        try:
            await handling.policy.run(
                lambda _execution: self._execute(record.name),
                self._seed(record),
                not_retryable=self._is_not_retryable,
                sleep=self._sleep,
            )
        except PyMongoError as error:
            self._bury(record, error)
        else:
            self._settle(record)

    async def _process_seeking(self, record: Record, rest: Sequence[Record]) -> bool:
        """False where the record was not settled and `rest` will be delivered again."""
        began = self._loop.time()
        try:
            await self._execute(record.name)
        except PyMongoError as error:
            wait = self._next_wait(record, began, error)
            if wait is None:
                self._bury(record, error)
                return True
            await self._seek_back(rest, wait)
            return False
        self._settle(record)
        return True

    def _next_wait(self, record: Record, began: float, error: PyMongoError) -> float | None:
        """Seconds until the next execution of the record; None where there is none."""
        policy = self._handling.policy
        failing = self._failing.get(record.at)
        if failing is None or failing.offset != record.offset:
            failing = self._failing[record.at] = _Failing(record.offset, began, policy.drawn(self._seed(record)))
        elapsed = self._loop.time() - failing.began
        if self._is_not_retryable(error) or not policy.another(failing.retries, elapsed):
            return None
        failing.retries += 1
        return failing.waits[failing.retries - 1]

    async def _seek_back(self, rest: Sequence[Record], wait: float) -> None:
        if self._handling.back_off == "sleep":
            await self._sleep(wait)
        # The last one seeked to of a partition is the first of `rest`. An expelled consumer may seek as well: it
        # believes that the partitions are its own until it polls.
        for record in reversed(rest):
            self.consumer.seek(record.at, record.offset)
        if self._handling.back_off == "poll" and wait > 0:
            await self._poll_through(wait)

    async def _poll_through(self, seconds: float) -> None:
        end = self._loop.time() + seconds
        self._backing_off = True
        self.consumer.pause(self.consumer.assignment)
        try:
            while (left := end - self._loop.time()) > 0:
                if self._stopping.is_set():
                    raise _Stopped
                self._commit()
                await self.consumer.poll(min(left, POLL))
        finally:
            self._backing_off = False
            self.consumer.resume(self.consumer.paused)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise _Stopped

    def _is_not_retryable(self, error: BaseException) -> bool:
        return not isinstance(error, PyMongoError) or is_one_of(error, self._handling.not_retryable)

    def _seed(self, record: Record) -> str:
        return f"{self._handling.seed}/{record.name}"

    def _settle(self, record: Record) -> None:
        self._failing.pop(record.at, None)
        self._pending.add(record)
        self._book.happened("processed", record, self.name)

    def _bury(self, record: Record, error: PyMongoError) -> None:
        self._failing.pop(record.at, None)
        self._log.dead_letter(record, one_line(error))
        self._pending.add(record)
        self._book.happened("dead", record, self.name, one_line(error))

    def _commit(self) -> None:
        records = self._pending.take()
        if not records:
            return
        try:
            self.consumer.commit({record.at: record.offset + 1 for record in records})
        except RebalanceInProgress:
            # A poll ends the rebalance; they are tried again behind it, or when their partition is revoked in it.
            for record in records:
                self._pending.add(record)
        except CommitFailed as error:
            self._give_up(records, one_line(error))
        else:
            for record in records:
                self._book.happened("committed", record, self.name)

    def _give_up(self, records: Sequence[Record], why: str) -> None:
        for record in records:
            self._book.happened("commit failed", record, self.name, why)
