"""A topic and a consumer group on it, for tests in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from harness.drivers.kafka import Consumer, Group, GroupSettings, Log, Record, TopicPartition

TOPIC = "orders"


def at(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)


class Told:
    """A rebalance listener that writes down what it is told, and commits what it was given to commit when revoked."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.consumer: Consumer | None = None
        self.processed: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("assigned", [one.partition for one in partitions]))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("revoked", [one.partition for one in partitions]))
        if self.consumer is not None and self.processed:
            self.consumer.commit(self.processed)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("lost", [one.partition for one in partitions]))


class Stand:
    """A topic with records, a group on it, and the log of what the coordinator did."""

    def __init__(self, partitions: int = 2, records: int = 8, **settings: Any) -> None:
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "group_initial_rebalance_delay_ms": 0}
        self.log = Log()
        self.log.create_topic(TOPIC, partitions)
        for number in range(records):
            self.log.append(TOPIC, number)
        self.seen: list[tuple[str, str, list[int], str]] = []
        self.group = Group(self.log, TOPIC, GroupSettings(**{**defaults, **settings}), self._observe)

    def _observe(self, what: str, consumer: str, partitions: Sequence[TopicPartition], why: str) -> None:
        self.seen.append((what, consumer, [one.partition for one in partitions], why))

    def of(self, what: str) -> list[tuple[str, list[int]]]:
        return [(consumer, partitions) for one, consumer, partitions, _ in self.seen if one == what]

    async def settle(self, *consumers: Consumer) -> None:
        """Poll all of them, with nothing to be read, until the group is stable."""
        for one in consumers:
            one.pause(one.assignment)
        for _ in range(4):
            await asyncio.gather(*(_idle(one) for one in consumers))
        for one in consumers:
            one.resume(one.assignment)


async def _idle(consumer: Consumer) -> None:
    """A poll that gives nothing back: what it reads is to be read again."""
    before = {one: consumer.position(one) for one in consumer.assignment}
    for record in reversed(await consumer.poll(4)):
        if record.at in consumer.assignment:
            consumer.seek(record.at, before.get(record.at, record.offset))
    consumer.pause(consumer.assignment)


def names(records: Sequence[Record]) -> list[str]:
    return [record.name for record in records]


def next_offsets(records: Sequence[Record]) -> Mapping[TopicPartition, int]:
    return {record.at: record.offset + 1 for record in records}
