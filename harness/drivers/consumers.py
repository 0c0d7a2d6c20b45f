"""Consumers of a Kafka topic that write each record to MongoDB, as applications do: the load of overlapping copies.

They record what they do and what came of it. Faults, counts at the server and verdicts are others' business.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pymongo import WriteConcern
from pymongo.monitoring import CommandListener

from harness.drivers.clients import Client, Driver, OptionValue, close_client, open_client, start_session
from harness.drivers.executions import SOURCE, Executions
from harness.drivers.kafka import Group, GroupSettings, Log, TopicPartition, What
from harness.drivers.kinds import Acknowledged, Kind, WriteOptions
from harness.drivers.polling import Book, Handling, PollLoop
from harness.drivers.warming import warm
from harness.history import Recorder

TOPIC: Final = "orders"
CHUNK: Final = 1000
"""Documents that are prepared by one command."""


def names(partitions: int, records: int) -> list[str]:
    """Of so many records, dealt out to the partitions in turn, in the order in which they are produced."""
    return [f"{TOPIC}/{one % partitions}/{one // partitions}" for one in range(records)]


def in_group(**settings: Any) -> GroupSettings:
    """Kafka's defaults but for two: a run reads what it produced itself, and all its consumers come at once."""
    return GroupSettings(**{"auto_offset_reset": "earliest", "group_initial_rebalance_delay_ms": 100, **settings})


@dataclass(frozen=True, slots=True)
class ConsumersPlan:
    """`records` are dealt out to the partitions in turn. `namespace`: where the records are written to.

    `explicit_session`: one for all executions of a consumer; else the driver takes one for each. `warm`: connections of
    each client that are open before the start. `there`: what a kind would upsert is there before. Raises ValueError on
    what does not go together.
    """

    uri: str = field(repr=False)
    namespace: str
    run: str
    kind: Kind
    handling: Handling
    partitions: int = 1
    records: int = 1
    consumers: int = 1
    group: GroupSettings = field(default_factory=in_group)
    driver: Driver = "pymongo"
    driver_options: Mapping[str, OptionValue] = field(default_factory=dict)
    shared_client: bool = False
    explicit_session: bool = False
    write_concern: Acknowledged = "majority"
    max_time_ms: int | None = None
    warm: int = 0
    there: bool = False

    def __post_init__(self) -> None:
        for name in ("partitions", "records", "consumers"):
            if getattr(self, name) < 1:
                raise ValueError(f"consumers: expected {name} of at least 1, found {getattr(self, name)}")
        self.kind.check(session=self.explicit_session, max_time=self.max_time_ms is not None)

    @property
    def options(self) -> WriteOptions:
        return WriteOptions(self.run, self.write_concern, max_time_ms=self.max_time_ms)

    @property
    def writes(self) -> list[str]:
        return names(self.partitions, self.records)

    @property
    def app_name(self) -> str:
        """By which a fault or a watcher knows the consumers' connections."""
        return f"mongofault {self.run} consumer"[:128]


@dataclass(frozen=True, slots=True)
class ConsumerCounters:
    """Executions by outcome, deliveries and what became of the records, consumers that were expelled: so far."""

    executions: int
    ok: int
    failed: int
    unknown: int
    in_flight: int
    polled: int
    redelivered: int
    processed: int
    dead: int
    committed: int
    commits_failed: int
    expelled: int


class ConsumersNotReady(Exception):
    """The consumers did not come to their partitions in time: says which did."""


class Consumers:
    """`start`, wait for `finished`, `stop`. Listeners hear the commands of all clients, in the event loop."""

    def __init__(self, recorder: Recorder, plan: ConsumersPlan, listeners: Sequence[CommandListener] = ()) -> None:
        self.plan = plan
        self.log = Log()
        self._recorder = recorder
        self._listeners = listeners
        self._book = Book(recorder)
        self._executions = Executions(recorder, plan.kind)
        self._group = Group(self.log, TOPIC, plan.group, self._observe)
        self._changes: Counter[What] = Counter()
        self._clients: list[Client] = []
        self._loops: list[PollLoop] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._producing: asyncio.Task[None] | None = None

    @property
    def counters(self) -> ConsumerCounters:
        tally, counts = self._executions.tally, self._book.counts
        return ConsumerCounters(
            executions=tally.begun,
            ok=tally.ok,
            failed=tally.failed,
            unknown=tally.unknown,
            in_flight=tally.in_flight,
            polled=counts["polled"],
            redelivered=counts["redelivered"],
            processed=counts["processed"],
            dead=counts["dead"],
            committed=counts["committed"],
            commits_failed=counts["commit failed"],
            expelled=self._changes["expelled"],
        )

    async def start(self, *, deadline: float = 30.0) -> None:
        """Warm, and in the group with their partitions; they write as soon as there is something to (`produce`).

        Raises ConsumersNotReady, NotWarm, DriverOptionError, PyMongoError, KafkaError.
        """
        plan = self.plan
        self.log.create_topic(TOPIC, plan.partitions)
        await self._prepare()
        for _ in range(1 if plan.shared_client else plan.consumers):
            self._clients.append(
                open_client(
                    plan.uri,
                    options=plan.driver_options,
                    listeners=self._listeners,
                    app_name=plan.app_name,
                    driver=plan.driver,
                )
            )
        if plan.warm:
            await asyncio.gather(*(warm(one, plan.warm, plan.driver_options) for one in self._clients))
        for number in range(plan.consumers):
            self._begin(f"c{number + 1}", self._clients[number % len(self._clients)])
        if not await self._until(self._all_assigned, deadline):
            raise ConsumersNotReady(
                f"consumers: expected {plan.consumers} with their partitions within {deadline:g} s,"
                f" found {self._group.assignment}"
            )

    def produce(self, rate: float | None = None) -> None:
        """All records: at once, or so many a second."""
        if rate is not None:
            self._producing = asyncio.create_task(self._produce(rate), name="producer")
            return
        for number in range(self.plan.records):
            self.log.append(TOPIC, {"record": number})

    async def _produce(self, rate: float) -> None:
        clock = asyncio.get_running_loop()
        began = clock.time()
        for number in range(self.plan.records):
            await asyncio.sleep(max(0.0, began + number / rate - clock.time()))
            self.log.append(TOPIC, {"record": number})

    async def finished(self, deadline: float) -> bool:
        """Wait until every record is processed or dead, committed, and nothing is executed any more; at most so long.

        False when `deadline` seconds have passed. Raises what ended a consumer.
        """
        return await self._until(self._all_done, deadline)

    async def stop(self, *, deadline: float = 5.0) -> None:
        """Nothing new is begun; executions without an answer after `deadline` seconds are recorded unknown.

        Raises what ended a consumer, when all is closed.
        """
        if self._producing is not None:
            self._producing.cancel()
            await asyncio.wait([self._producing])
        for loop in self._loops:
            loop.stop()
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=deadline)
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending, timeout=1.0)
        await asyncio.gather(*(close_client(client) for client in self._clients))
        self._raise_what_ended_one()

    def _begin(self, name: str, client: Client) -> None:
        database, _, collection = self.plan.namespace.partition(".")
        target: Any = client[database][collection]

        async def consume() -> None:
            async with _session(client, self.plan.explicit_session) as session:
                options = replace(self.plan.options, session=session)

                async def execute(write: str) -> None:
                    await self._executions.run(target, write, name, options)

                loop = PollLoop(self._group, name, execute, self.plan.handling, self._book)
                self._loops.append(loop)
                await loop.run()

        task = asyncio.create_task(consume(), name=f"consumer {name}")
        task.add_done_callback(lambda _done: self._book.news.set())
        self._tasks.append(task)

    async def _prepare(self) -> None:
        """What the kind needs to be there, written by a client that no fault is aimed at."""
        plan = self.plan
        documents = [one for name in plan.writes for one in plan.kind.preparation(name, there=plan.there)]
        if not documents:
            return
        client = open_client(plan.uri, app_name=f"mongofault {plan.run} preparation"[:128])
        try:
            database, _, name = plan.namespace.partition(".")
            collection: Any = client[database].get_collection(name, write_concern=WriteConcern(w="majority"))
            for start in range(0, len(documents), CHUNK):
                await collection.insert_many(documents[start : start + CHUNK])
        finally:
            await close_client(client)

    async def _until(self, condition: Callable[[], bool], deadline: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                while True:
                    self._raise_what_ended_one()
                    if condition():
                        return True
                    self._book.news.clear()
                    await self._book.news.wait()
        return condition()

    def _all_assigned(self) -> bool:
        given = [one for partitions in self._group.assignment.values() for one in partitions]
        return (
            len(self._group.assignment) == self.plan.consumers
            and not self._group.rebalancing
            and sorted(given) == list(self.log.partitions(TOPIC))
        )

    def _all_done(self) -> bool:
        committed = all(self._group.committed.get(one, 0) >= self.log.end(one) for one in self.log.partitions(TOPIC))
        return committed and not self._executions.tally.in_flight and len(self._book.settled) == self.plan.records

    def _observe(self, what: What, consumer: str, partitions: Sequence[TopicPartition], why: str) -> None:
        self._changes[what] += 1
        self._recorder.record(
            "consumer",
            SOURCE,
            consumer=consumer,
            what=what,
            partitions=[str(one) for one in partitions],
            detail=why or None,
        )
        self._book.news.set()

    def _raise_what_ended_one(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error


@asynccontextmanager
async def _session(client: Client, wanted: bool) -> AsyncIterator[Any]:
    """An explicit session where one is wanted, else None. Its end sends nothing: the client's close does."""
    session = await start_session(client) if wanted else None
    try:
        yield session
    finally:
        if session is not None:
            await session.end_session()
