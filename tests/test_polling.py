"""One consumer's loop in virtual time: what is executed, when, and what becomes of the record; no server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, DuplicateKeyError, NetworkTimeout, OperationFailure, PyMongoError

from harness.drivers.kafka import Group, GroupSettings, Log, TopicPartition
from harness.drivers.polling import Book, Handling, PollLoop
from harness.drivers.retries import exponential, fixed
from harness.history import Event, Recorder
from kafka_parts import TOPIC
from virtual_time import in_virtual_time

both_ways = pytest.mark.parametrize("seek_after_error", [True, False], ids=["seeking back", "in place"])


class Bench:
    """A topic, a group on it, and consumers whose executions end as they are told: by write, one after the other."""

    def __init__(self, recorder: Recorder, handling: Handling, partitions: int = 1, **settings: Any) -> None:
        records = settings.pop("records", 3)
        self.events: list[Event] = []
        recorder.subscribe(self.events.append)
        self.book = Book(recorder)
        self.handling = handling
        self.log = Log()
        self.log.create_topic(TOPIC, partitions)
        for number in range(records):
            self.log.append(TOPIC, number)
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "group_initial_rebalance_delay_ms": 0}
        self.group = Group(self.log, TOPIC, GroupSettings(**{**defaults, **settings}), self._observe)
        self.expelled: list[str] = []
        self.executed: list[tuple[float, str, str]] = []
        self.ends: dict[str, list[PyMongoError | float]] = {}
        """By write: errors to be raised, or seconds to take, by the next executions; ok at once when used up."""
        self._loops: list[PollLoop] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _observe(self, what: str, consumer: str, partitions: Sequence[TopicPartition], why: str) -> None:
        if what == "expelled":
            self.expelled.append(f"{consumer} {why}")

    def begin(self, name: str = "c1") -> PollLoop:
        async def execute(write: str) -> None:
            self.executed.append((round(asyncio.get_running_loop().time(), 1), name, write))
            end = self.ends[write].pop(0) if self.ends.get(write) else 0.0
            if isinstance(end, PyMongoError):
                raise end
            await asyncio.sleep(end)

        loop = PollLoop(self.group, name, execute, self.handling, self.book)
        self._loops.append(loop)
        self._tasks.append(asyncio.create_task(loop.run()))
        return loop

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(3600):
            while not condition():
                self.book.news.clear()
                await self.book.news.wait()

    async def end(self) -> None:
        for loop in self._loops:
            loop.stop()
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self, records: int = 3) -> None:
        """One consumer, until all records are committed."""
        self.begin()
        await self.until(lambda: sum(self.group.committed.values()) == records)
        await self.end()

    @property
    def writes(self) -> list[str]:
        return [write.removeprefix("orders/") for _, _, write in self.executed]

    def of(self, write: str) -> list[str]:
        return [one["what"] for one in self.events if one.kind == "record" and one["write"] == f"orders/{write}"]

    @property
    def dead(self) -> list[str]:
        return [one.headers["kafka_dlt-original-offset"] for one in self.log.dead_letters(TOPIC)]


Make = Callable[..., Bench]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A bench in the loop that runs; its history is closed after the test."""
    with ExitStack() as stack:

        def made(handling: Handling, **options: Any) -> Bench:
            recorder = Recorder(tmp_path / "history.jsonl")
            stack.callback(recorder.close)
            return Bench(recorder, handling, **options)

        yield made


def always(error: PyMongoError, times: int = 50) -> list[PyMongoError | float]:
    return [error] * times


@both_ways
def test_what_succeeds_is_executed_once_in_order_and_committed(make: Make, seek_after_error: bool) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(1, 3), seek_after_error=seek_after_error))
        await bench.run()
        assert bench.writes == ["0/0", "0/1", "0/2"]
        assert bench.of("0/1") == ["polled", "processed", "committed"]
        assert bench.group.committed == {TopicPartition(TOPIC, 0): 3}

    in_virtual_time(run())


def test_after_an_error_the_record_and_those_behind_it_are_delivered_again(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 9)))
        bench.ends["orders/0/1"] = always(AutoReconnect("reset"), 2)
        await bench.run()
        assert bench.writes == ["0/0", "0/1", "0/1", "0/1", "0/2"]
        assert bench.of("0/0") == ["polled", "processed", "committed"]
        assert bench.of("0/1") == ["polled", "redelivered", "redelivered", "processed", "committed"]
        assert bench.of("0/2") == ["polled", "redelivered", "redelivered", "processed", "committed"]
        again = next(one for one in bench.events if one.get("what") == "redelivered")
        assert again["detail"] == "before at c1"

    in_virtual_time(run())


def test_in_place_the_others_wait_and_nothing_is_delivered_again(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(2, 9), seek_after_error=False))
        bench.ends["orders/0/1"] = always(AutoReconnect("reset"), 2)
        await bench.run()
        assert [(at, write) for at, _, write in bench.executed] == [
            (0.0, "orders/0/0"),
            (0.0, "orders/0/1"),
            (2.0, "orders/0/1"),
            (4.0, "orders/0/1"),
            (4.0, "orders/0/2"),
        ]
        assert bench.of("0/2") == ["polled", "processed", "committed"]

    in_virtual_time(run())


@both_ways
@pytest.mark.parametrize("back_off", ["poll", "sleep"])
def test_each_retry_waits_as_the_policy_says(make: Make, seek_after_error: bool, back_off: Any) -> None:
    async def run() -> None:
        handling = Handling(exponential(1, 2, 5, 4), seek_after_error=seek_after_error, back_off=back_off)
        bench = make(handling, records=1)
        bench.ends["orders/0/0"] = always(NetworkTimeout("timed out"))
        await bench.run(1)
        assert [at for at, _, _ in bench.executed] == pytest.approx([0, 1, 3, 7, 12], abs=0.2)

    in_virtual_time(run())


@both_ways
def test_after_the_last_retry_a_record_is_dead_and_the_next_one_has_its_turn(
    make: Make, seek_after_error: bool
) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 3), seek_after_error=seek_after_error))
        bench.ends["orders/0/1"] = always(NetworkTimeout("timed out"))
        await bench.run()
        assert bench.writes == ["0/0", *["0/1"] * 4, "0/2"]
        assert bench.dead == ["1"]
        assert bench.log.dead_letters(TOPIC)[0].headers["kafka_dlt-exception-message"] == "NetworkTimeout: timed out"
        assert bench.of("0/1")[-2:] == ["dead", "committed"]

    in_virtual_time(run())


NOT_RETRYABLE: list[tuple[PyMongoError, str | int]] = [
    (DuplicateKeyError("there", 11000), "DuplicateKeyError"),
    (DuplicateKeyError("there", 11000), "WriteError"),
    (OperationFailure("exceeded", 50, {"codeName": "MaxTimeMSExpired"}), 50),
    (OperationFailure("exceeded", 50, {"codeName": "MaxTimeMSExpired"}), "MaxTimeMSExpired"),
    (NetworkTimeout("timed out"), "AutoReconnect"),
]


@both_ways
@pytest.mark.parametrize(("error", "name"), NOT_RETRYABLE, ids=[str(row[1]) for row in NOT_RETRYABLE])
def test_what_is_not_retryable_goes_to_the_dead_letters_at_once(
    make: Make, seek_after_error: bool, error: PyMongoError, name: str | int
) -> None:
    async def run() -> None:
        handling = Handling(fixed(0, 9), seek_after_error=seek_after_error, not_retryable=frozenset({name}))
        bench = make(handling)
        bench.ends["orders/0/0"] = always(error)
        bench.ends["orders/0/2"] = always(AutoReconnect("reset"), 1)
        await bench.run()
        expected = ["0/0", "0/1", "0/2"] + (["0/2"] if name != "AutoReconnect" else [])
        assert bench.writes == expected
        assert bench.dead == (["0"] if name != "AutoReconnect" else ["0", "2"])

    in_virtual_time(run())


@both_ways
def test_an_elapsed_limit_ends_the_retries_early(make: Make, seek_after_error: bool) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(1, 9, elapsed_limit=2.5), seek_after_error=seek_after_error), records=1)
        bench.ends["orders/0/0"] = always(NetworkTimeout("timed out"))
        await bench.run(1)
        assert bench.writes == ["0/0"] * 4
        assert bench.dead == ["0"]

    # tenacity, which retries in place, goes by the system's clock.
    (in_virtual_time if seek_after_error else asyncio.run)(run())


def test_a_back_off_that_polls_outlasts_the_poll_interval_and_one_that_sleeps_does_not(make: Make) -> None:
    async def run(back_off: Any) -> Bench:
        bench = make(Handling(fixed(30, 1), back_off=back_off), records=2, max_poll_interval_ms=10_000)
        bench.ends["orders/0/0"] = always(NetworkTimeout("timed out"), 1)
        await bench.run(2)
        return bench

    polled = in_virtual_time(run("poll"))
    assert polled.expelled == []
    assert polled.writes == ["0/0", "0/0", "0/1"]
    slept = in_virtual_time(run("sleep"))
    assert slept.expelled == ["c1 max.poll.interval.ms"]


def test_an_expelled_consumer_writes_on_while_another_executes_its_record_again(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 0)), records=3, max_poll_interval_ms=10_000)
        bench.ends["orders/0/0"] = [15.0]
        bench.begin("c1")
        await asyncio.sleep(1)
        bench.begin("c2")
        await bench.until(lambda: sum(bench.group.committed.values()) == 3)
        await asyncio.sleep(20)
        await bench.end()
        assert bench.expelled == ["c1 max.poll.interval.ms"]
        zombie = [(at, write) for at, name, write in bench.executed if name == "c1"]
        other = [(at, write) for at, name, write in bench.executed if name == "c2"]
        # c1 has all three records in hand, and runs through them although they are another's by then.
        assert zombie == [(0.0, "orders/0/0"), (15.0, "orders/0/1"), (15.0, "orders/0/2")]
        assert [write for _, write in other] == ["orders/0/0", "orders/0/1", "orders/0/2"]
        assert 10 <= other[0][0] <= 14
        assert bench.of("0/0").count("commit failed") == 1
        assert bench.of("0/0").count("committed") == 1
        assert {"polled", "redelivered"} <= set(bench.of("0/0"))

    in_virtual_time(run())


def test_partitions_that_come_in_a_back_off_wait_for_its_end(make: Make) -> None:
    async def run() -> None:
        handling = Handling(fixed(30, 1))
        bench = make(handling, records=4, partitions=2, group_initial_rebalance_delay_ms=100)
        bench.ends["orders/0/0"] = always(NetworkTimeout("timed out"), 1)
        bench.ends["orders/1/0"] = [2.0]
        bench.begin("c1")
        other = bench.begin("c2")
        await asyncio.sleep(1)
        other.stop()
        await bench.until(lambda: sum(bench.group.committed.values()) == 4)
        await bench.end()
        taken_over = next(at for at, name, write in bench.executed if (name, write) == ("c1", "orders/1/1"))
        assert taken_over == pytest.approx(30.1, abs=0.3)

    in_virtual_time(run())


def test_a_commit_that_comes_in_a_rebalance_is_made_up_for_after_it(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 0)), records=20, partitions=2, rebalance="cooperative", max_poll_records=1)
        bench.ends = {f"orders/{partition}/{offset}": [1.0] for partition in (0, 1) for offset in range(10)}
        bench.begin("c1")
        await asyncio.sleep(2.5)
        bench.begin("c2")
        await bench.until(lambda: bench.book.counts["processed"] == 20)
        await bench.end()
        for record in [*bench.ends]:
            assert bench.of(record.removeprefix("orders/")) == ["polled", "processed", "committed"]

    in_virtual_time(run())


def test_retries_are_counted_anew_for_another_record_of_the_partition(make: Make) -> None:
    async def run() -> None:
        handling = Handling(fixed(30, 1), back_off="sleep")
        bench = make(handling, records=2, max_poll_interval_ms=10_000)
        bench.ends["orders/0/0"] = [NetworkTimeout("timed out"), 1.0]
        bench.ends["orders/0/1"] = always(NetworkTimeout("timed out"), 1)
        bench.begin("c1")
        await asyncio.sleep(11)
        # Meanwhile c1 has lost the partition, and another one settles the record that it was about to retry.
        other = bench.begin("c2")
        await bench.until(lambda: len(bench.executed) == 2 or bench.book.counts["redelivered"] > 0)
        other.stop()
        await bench.until(lambda: sum(bench.group.committed.values()) == 2)
        await bench.end()
        assert [(name, write) for _, name, write in bench.executed] == [
            ("c1", "orders/0/0"),
            ("c2", "orders/0/0"),
            ("c1", "orders/0/1"),
            ("c1", "orders/0/1"),
        ]
        assert bench.dead == []

    in_virtual_time(run())


def test_batches_are_committed_before_the_next_poll_and_records_at_once_where_asked(make: Make) -> None:
    async def run(ack_mode: Any) -> int:
        bench = make(Handling(fixed(0, 0), ack_mode=ack_mode), records=3)
        bench.ends["orders/0/2"] = [5.0]
        bench.begin()
        await asyncio.sleep(2)
        committed = bench.group.committed.get(TopicPartition(TOPIC, 0), 0)
        await bench.end()
        return committed

    assert in_virtual_time(run("batch")) == 0
    assert in_virtual_time(run("record")) == 2


@both_ways
def test_the_same_seed_draws_the_same_waits_and_another_others(make: Make, seek_after_error: bool) -> None:
    async def run(seed: int) -> list[float]:
        handling = Handling(fixed(10, 3, jitter=0.5), seek_after_error=seek_after_error, seed=seed)
        bench = make(handling, records=1)
        bench.ends["orders/0/0"] = always(NetworkTimeout("timed out"))
        await bench.run(1)
        return [at for at, _, _ in bench.executed]

    times = [in_virtual_time(run(seed)) for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]
    waits = [later - sooner for sooner, later in zip(times[0], times[0][1:], strict=False)]
    assert all(4.9 <= wait <= 10.2 for wait in waits)


@both_ways
def test_a_loop_that_is_stopped_in_a_back_off_ends_at_once_and_leaves_the_record_uncommitted(
    make: Make, seek_after_error: bool
) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(100, 9), seek_after_error=seek_after_error), records=2)
        bench.ends["orders/0/1"] = always(NetworkTimeout("timed out"))
        bench.begin()
        await asyncio.sleep(5)
        await bench.end()
        assert asyncio.get_running_loop().time() < 6
        assert bench.group.committed == {TopicPartition(TOPIC, 0): 1}
        assert bench.group.assignment == {}

    in_virtual_time(run())


def test_a_loop_that_is_stopped_in_a_batch_begins_no_other_record(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 0)))
        bench.ends["orders/0/0"] = [2.0]
        bench.begin()
        await asyncio.sleep(1)
        await bench.end()
        assert bench.writes == ["0/0"]
        assert bench.of("0/0")[-1] == "committed"

    in_virtual_time(run())


def test_a_loop_that_is_cancelled_commits_what_it_has_processed(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 0)))
        bench.ends["orders/0/1"] = [100.0]
        bench.begin()
        await asyncio.sleep(1)
        await bench.cancel()
        assert bench.group.committed == {TopicPartition(TOPIC, 0): 1}

    in_virtual_time(run())


def test_an_error_that_is_not_the_drivers_ends_the_loop_and_is_told(make: Make) -> None:
    async def run() -> None:
        bench = make(Handling(fixed(0, 9)))

        async def execute(write: str) -> None:
            raise KeyError(write)

        loop = PollLoop(bench.group, "c1", execute, bench.handling, bench.book)
        with pytest.raises(KeyError):
            await loop.run()
        assert bench.group.assignment == {}

    in_virtual_time(run())
