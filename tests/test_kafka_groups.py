"""Several consumers of a group as Kafka has it: who gets a record, who gets it again, and whose commit is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.drivers.kafka import CommitFailed, Consumer, Rebalance, RebalanceInProgress, Record, TopicPartition
from kafka_parts import TOPIC, Stand, Told, at, names, next_offsets
from virtual_time import VirtualLoop, in_virtual_time

both_protocols = pytest.mark.parametrize("rebalance", ["eager", "cooperative"])


@both_protocols
def test_an_empty_group_waits_for_more_members_before_it_gives_anything(rebalance: Rebalance) -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=4, rebalance=rebalance, group_initial_rebalance_delay_ms=3000)
        consumers = [Consumer(stand.group, name) for name in ("c1", "c2")]
        found = await asyncio.gather(*(one.poll(10) for one in consumers))
        assert [sorted({record.at.partition for record in records}) for records in found] == [[0], [1]]
        assert asyncio.get_running_loop().time() == pytest.approx(3)
        assert stand.group.generation == 1

    in_virtual_time(run())


def test_an_eager_rebalance_takes_everything_from_everybody_first() -> None:
    async def run() -> None:
        stand = Stand(partitions=4, records=0, rebalance="eager")
        told = Told()
        first = Consumer(stand.group, "c1", told)
        await first.poll(0)
        second = Consumer(stand.group, "c2")
        await stand.settle(first, second)
        assert told.told == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3]), ("assigned", [0, 1])]
        assert second.assignment == (at(2), at(3))

    in_virtual_time(run())


def test_a_cooperative_rebalance_takes_only_what_moves_and_gives_it_in_a_second_step() -> None:
    async def run() -> None:
        stand = Stand(partitions=4, records=0, rebalance="cooperative")
        told, new = Told(), Told()
        first = Consumer(stand.group, "c1", told)
        await first.poll(0)
        await stand.settle(first, Consumer(stand.group, "c2", new))
        assert told.told == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3]), ("assigned", []), ("assigned", [])]
        assert new.told == [("assigned", []), ("assigned", [2, 3])]
        assert stand.group.generation == 3

    in_virtual_time(run())


def test_in_a_cooperative_rebalance_reading_goes_on_and_a_commit_must_wait_for_its_end() -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=6, rebalance="cooperative", max_poll_records=1)
        first, second = Consumer(stand.group, "c1"), Consumer(stand.group, "c2")
        assert names(await first.poll(1)) == ["orders/0/0"]
        joining = asyncio.create_task(second.poll(20))
        await asyncio.sleep(4)  # the heartbeat that tells of the rebalance comes after 3 s
        assert names(await first.poll(1)) == ["orders/0/1"]
        with pytest.raises(RebalanceInProgress, match="poll until it is over"):
            first.commit({at(0): 2})
        assert names(await joining) == ["orders/1/0"]
        assert names(await first.poll(1)) == ["orders/0/2"]
        first.commit({at(0): 2})
        assert stand.group.committed == {at(0): 2}

    in_virtual_time(run())


@both_protocols
def test_what_was_processed_can_still_be_committed_when_a_partition_is_revoked(rebalance: Rebalance) -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=8, rebalance=rebalance)
        told = Told()
        told.consumer = first = Consumer(stand.group, "c1", told)
        records = await first.poll(1)
        told.processed = dict(next_offsets(records))
        second = Consumer(stand.group, "c2")
        await stand.settle(first, second)
        assert stand.group.committed == {at(0): 4, at(1): 4}
        assert await second.poll(1) == []

    in_virtual_time(run())


@both_protocols
def test_who_leaves_hands_its_partitions_over_at_once(rebalance: Rebalance) -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=0, rebalance=rebalance, group_initial_rebalance_delay_ms=100)
        first, second = Consumer(stand.group, "c1"), Consumer(stand.group, "c2")
        await asyncio.gather(first.poll(1), second.poll(1))
        second.close()
        start = asyncio.get_running_loop().time()
        stand.log.append(TOPIC, "for all", partition=1)
        assert [record.value for record in await first.poll(20)] == ["for all"]
        assert asyncio.get_running_loop().time() - start <= 3
        assert stand.of("left") == [("c2", [1])]

    in_virtual_time(run())


@both_protocols
def test_who_does_not_poll_is_expelled_its_records_go_to_others_and_its_commit_fails(rebalance: Rebalance) -> None:
    async def run() -> None:
        stand = Stand(
            partitions=2,
            records=4,
            rebalance=rebalance,
            max_poll_interval_ms=10_000,
            group_initial_rebalance_delay_ms=100,
        )
        told = Told()
        slow, other = Consumer(stand.group, "c1", told), Consumer(stand.group, "c2")
        mine, its = await asyncio.gather(slow.poll(1), other.poll(1))
        other.commit(next_offsets(its))
        assert names(mine) == ["orders/0/0", "orders/0/1"]
        again: list[Record] = []
        start = asyncio.get_running_loop().time()
        while not again:
            again = await other.poll(1)
        assert names(again) == names(mine)
        assert 10 <= asyncio.get_running_loop().time() - start <= 14
        assert ("expelled", "c1", [0], "max.poll.interval.ms") in stand.seen
        # A zombie believes that nothing has happened.
        assert slow.assignment == (at(0),)
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            slow.commit(next_offsets(mine))
        assert at(0) not in stand.group.committed
        other.commit(next_offsets(again))
        await stand.settle(slow, other)
        assert told.told[:2] == [("assigned", [0]), ("lost", [0])]
        assert ("revoked", [0]) not in told.told
        assert sorted(slow.assignment + other.assignment) == [at(0), at(1)]

    in_virtual_time(run())


def test_a_poll_in_time_keeps_the_partitions_however_often_it_is_needed() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=2, max_poll_interval_ms=10_000)
        consumer = Consumer(stand.group, "c1")
        await consumer.poll(1)
        for _ in range(10):
            await asyncio.sleep(9)
            await consumer.poll(0)
        assert stand.of("expelled") == []
        # The wait in a poll is no pause between polls.
        await consumer.poll(60)
        assert stand.of("expelled") == []
        await asyncio.sleep(10.1)
        assert stand.of("expelled") == [("c1", [0])]

    in_virtual_time(run())


def test_an_only_consumer_that_was_expelled_gets_its_own_records_again() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=3, max_poll_interval_ms=10_000)
        consumer = Consumer(stand.group, "c1")
        first = await consumer.poll(1)
        await asyncio.sleep(11)
        with pytest.raises(CommitFailed):
            consumer.commit(next_offsets(first))
        assert names(await consumer.poll(1)) == names(first)
        consumer.commit(next_offsets(first))
        assert stand.group.committed == {at(0): 3}

    in_virtual_time(run())


def test_who_is_killed_keeps_its_partitions_until_the_session_times_out() -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=4, group_initial_rebalance_delay_ms=100)
        first, second = Consumer(stand.group, "c1"), Consumer(stand.group, "c2")
        mine, its = await asyncio.gather(first.poll(1), second.poll(1))
        second.commit(next_offsets(its))
        first.die()
        start = asyncio.get_running_loop().time()
        again: list[Record] = []
        while not again:
            again = await second.poll(1)
        assert names(again) == names(mine)
        assert 42 <= asyncio.get_running_loop().time() - start <= 50
        assert ("expelled", "c1", [0], "session.timeout.ms") in stand.seen

    in_virtual_time(run())


def test_a_loop_that_was_held_up_for_longer_than_the_session_costs_nobody_its_partitions() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=1)
        consumer = Consumer(stand.group, "c1")
        await consumer.poll(1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.hold_up(60)
        await asyncio.sleep(5)
        assert stand.of("expelled") == []
        consumer.commit({at(0): 1})

    in_virtual_time(run())


SECONDS = st.lists(st.sampled_from([0.0, 1.0, 4.0, 12.0]), max_size=5)


@both_protocols
@settings(max_examples=12, deadline=None)
@given(pauses=st.fixed_dictionaries({"c1": SECONDS, "c2": SECONDS, "c3": SECONDS}), killed=st.booleans())
def test_every_record_is_delivered_and_committed_whoever_is_slow_or_dies(
    rebalance: Rebalance, pauses: dict[str, list[float]], killed: bool
) -> None:
    """Three consumers, some of whose batches take longer than max.poll.interval.ms; the first may be killed."""
    slow = max((seconds for each in pauses.values() for seconds in each), default=0) > 10

    async def run() -> None:
        stand = Stand(
            partitions=3,
            records=18,
            rebalance=rebalance,
            max_poll_records=2,
            max_poll_interval_ms=10_000,
            group_initial_rebalance_delay_ms=100,
        )
        delivered: list[str] = []

        async def consume(name: str, batches: int | None) -> None:
            consumer = Consumer(stand.group, name)
            due: dict[TopicPartition, int] = {}
            while True:
                records = await consumer.poll(1)
                delivered.extend(names(records))
                if batches is not None and (batches := batches - 1) < 0:
                    consumer.die()
                    return
                if pauses[name]:
                    await asyncio.sleep(pauses[name].pop())
                due |= next_offsets(records)
                try:
                    consumer.commit(due)
                    due = {}
                except RebalanceInProgress:
                    pass  # It keeps what it has, and commits it when that is over.
                except CommitFailed:
                    due = {}  # Whoever has the partitions now gets the records again.
                held = [one for partitions in stand.group.assignment.values() for one in partitions]
                assert len(held) == len(set(held))

        tasks = [asyncio.create_task(consume(name, 1 if killed and name == "c1" else None)) for name in pauses]
        await asyncio.sleep(300)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome
        assert stand.group.committed == dict.fromkeys(stand.log.partitions(TOPIC), 6)
        assert len(set(delivered)) == 18
        assert len(delivered) == 18 or slow or killed

    in_virtual_time(run())
