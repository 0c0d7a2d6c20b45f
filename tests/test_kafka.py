"""A log and one consumer of it as Kafka has them: what a poll gives, and from where."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.drivers.kafka import Consumer, GroupSettings, KafkaError, Log, NoOffsetForPartition, TopicPartition
from kafka_parts import TOPIC, Stand, at, names, next_offsets
from virtual_time import in_virtual_time


def test_a_record_is_named_by_topic_partition_and_offset_and_stays_where_it_is() -> None:
    log = Log()
    log.create_topic(TOPIC, 2)
    written = [log.append(TOPIC, number) for number in range(5)]
    assert names(written) == ["orders/0/0", "orders/1/0", "orders/0/1", "orders/1/1", "orders/0/2"]
    assert log.read(at(0), 1, 10) == [written[2], written[4]]
    assert [log.end(one) for one in log.partitions(TOPIC)] == [3, 2]


def test_a_dead_letter_lies_in_the_partition_of_its_number_and_says_where_it_comes_from() -> None:
    log = Log()
    log.create_topic(TOPIC, 2)
    log.append(TOPIC, "fine")
    record = log.append(TOPIC, "broken", key="k")
    assert log.dead_letters(TOPIC) == []
    dead = log.dead_letter(record, "NetworkTimeout: timed out")
    assert (dead.at, dead.value, dead.key) == (TopicPartition("orders-dlt", 1), "broken", "k")
    assert dead.headers["kafka_dlt-original-topic"] == TOPIC
    assert dead.headers["kafka_dlt-original-partition"] == "1"
    assert dead.headers["kafka_dlt-original-offset"] == "0"
    assert dead.headers["kafka_dlt-exception-message"] == "NetworkTimeout: timed out"
    assert log.dead_letters(TOPIC) == [dead]


def test_what_is_not_there_is_refused_by_name() -> None:
    log = Log()
    log.create_topic(TOPIC, 1)
    with pytest.raises(KafkaError, match="expected a new one"):
        log.create_topic(TOPIC, 1)
    with pytest.raises(KafkaError, match="topic bills: expected one of orders"):
        log.append("bills", 1)
    with pytest.raises(KafkaError, match="partition orders/1: expected one of the 1"):
        log.append(TOPIC, 1, partition=1)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"max_poll_records": 0}, "max.poll.records: expected at least 1, found 0"),
        ({"max_poll_interval_ms": -1}, "max.poll.interval.ms"),
        ({"heartbeat_interval_ms": 45_000}, "expected below session.timeout.ms=45000, found 45000"),
        ({"group_initial_rebalance_delay_ms": -1}, "group.initial.rebalance.delay.ms"),
    ],
)
def test_settings_that_kafka_refuses_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        GroupSettings(**settings)


def test_the_defaults_are_kafkas() -> None:
    found = GroupSettings()
    assert (found.max_poll_records, found.max_poll_interval_ms) == (500, 300_000)
    assert (found.session_timeout_ms, found.heartbeat_interval_ms) == (45_000, 3_000)
    assert found.auto_offset_reset == "latest"


def test_a_consumer_reads_all_partitions_in_order_and_no_more_at_once_than_max_poll_records() -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=7, max_poll_records=3)
        consumer = Consumer(stand.group, "c1")
        batches = [names(await consumer.poll(1)) for _ in range(4)]
        assert [len(batch) for batch in batches] == [3, 3, 1, 0]
        read = [name for batch in batches for name in batch]
        assert [name for name in read if name.startswith("orders/0")] == [f"orders/0/{n}" for n in range(4)]
        assert [name for name in read if name.startswith("orders/1")] == [f"orders/1/{n}" for n in range(3)]

    in_virtual_time(run())


def test_a_poll_waits_for_a_record_and_no_longer_than_its_timeout() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        stand = Stand(records=0)
        consumer = Consumer(stand.group, "c1")
        assert await consumer.poll(5) == []
        assert loop.time() == pytest.approx(5)
        loop.call_later(2, stand.log.append, TOPIC, "late")
        assert [record.value for record in await consumer.poll(5)] == ["late"]
        assert loop.time() == pytest.approx(7)

    in_virtual_time(run())


@pytest.mark.parametrize(("reset", "read"), [("earliest", ["old", "new"]), ("latest", ["new"])])
def test_without_a_commit_reading_begins_where_auto_offset_reset_says(reset: str, read: list[str]) -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=0, auto_offset_reset=reset)
        stand.log.append(TOPIC, "old")
        consumer = Consumer(stand.group, "c1")
        found = await consumer.poll(1)
        stand.log.append(TOPIC, "new")
        found += await consumer.poll(1)
        assert [record.value for record in found] == read

    in_virtual_time(run())


def test_without_a_commit_and_without_a_reset_the_poll_fails_and_with_one_it_goes_on_from_there() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=3, auto_offset_reset="none")
        with pytest.raises(NoOffsetForPartition, match="orders/0: nothing is committed"):
            await Consumer(stand.group, "c1").poll(1)
        stand = Stand(partitions=1, records=3, auto_offset_reset="none")
        stand.group.committed[at(0)] = 2
        assert names(await Consumer(stand.group, "c1").poll(1)) == ["orders/0/2"]

    in_virtual_time(run())


def test_after_a_seek_the_record_and_those_behind_it_are_delivered_again() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=4)
        consumer = Consumer(stand.group, "c1")
        assert len(await consumer.poll(1)) == 4
        consumer.seek(at(0), 2)
        assert names(await consumer.poll(1)) == ["orders/0/2", "orders/0/3"]
        with pytest.raises(KafkaError, match="no current assignment for partition orders/9"):
            consumer.seek(at(9), 0)

    in_virtual_time(run())


def test_a_paused_partition_gives_no_records_until_it_is_resumed() -> None:
    async def run() -> None:
        stand = Stand(partitions=2, records=4)
        consumer = Consumer(stand.group, "c1")
        assert await consumer.poll(1)
        for one in consumer.assignment:
            consumer.seek(one, 0)
        consumer.pause([at(0)])
        assert names(await consumer.poll(1)) == ["orders/1/0", "orders/1/1"]
        assert await consumer.poll(1) == []
        consumer.resume([at(0)])
        assert names(await consumer.poll(1)) == ["orders/0/0", "orders/0/1"]

    in_virtual_time(run())


def test_who_comes_after_goes_on_behind_the_committed_offset() -> None:
    async def run() -> None:
        stand = Stand(partitions=1, records=4)
        first = Consumer(stand.group, "c1")
        records = await first.poll(1)
        first.commit(next_offsets(records[:3]))
        first.close()
        assert names(await Consumer(stand.group, "c2").poll(1)) == ["orders/0/3"]

    in_virtual_time(run())
