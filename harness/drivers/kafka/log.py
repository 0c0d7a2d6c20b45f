"""A record log: topics of partitions of records, each record at its offset. It knows no consumers.

It lives in this process and its memory: what it is for is redelivery, not durability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.drivers.kafka.errors import KafkaError

DEAD_LETTER_SUFFIX: Final = "-dlt"
"""Of the topic that dead letters of a topic go to, into the partition of the same number (Spring Kafka's
DeadLetterPublishingRecoverer; before its version 3 the suffix was `.DLT`)."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record where it lies. `headers` say of a dead letter where it comes from and why it is here."""

    at: TopicPartition
    offset: int
    value: Any
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`TOPIC/PARTITION/OFFSET`: names the record for good, however often it is delivered."""
        return f"{self.at}/{self.offset}"


class Log:
    """Topics. Reading is by offset; whoever waits for news subscribes."""

    def __init__(self) -> None:
        self._topics: dict[str, list[list[Record]]] = {}
        self._next: dict[str, int] = {}
        self._subscribers: list[Callable[[], None]] = []

    def create_topic(self, topic: str, partitions: int) -> None:
        """Raises KafkaError where there is one already."""
        if topic in self._topics or partitions < 1:
            raise KafkaError(f"topic {topic}: expected a new one of at least 1 partition, found {partitions}")
        self._topics[topic] = [[] for _ in range(partitions)]
        self._next[topic] = 0

    def append(
        self,
        topic: str,
        value: Any,
        *,
        key: str | None = None,
        partition: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Record:
        """At the end of a partition: of the given one, else of the next in turn. Raises KafkaError."""
        partitions = self._partitions(topic)
        if partition is None:
            partition = self._next[topic]
            self._next[topic] = (partition + 1) % len(partitions)
        records = self._of(TopicPartition(topic, partition))
        record = Record(TopicPartition(topic, partition), len(records), value, key, headers or {})
        records.append(record)
        for subscriber in list(self._subscribers):
            subscriber()
        return record

    def dead_letter(self, record: Record, why: str) -> Record:
        """A copy in the dead-letter topic, which is created with the first one."""
        topic = record.at.topic + DEAD_LETTER_SUFFIX
        if topic not in self._topics:
            self.create_topic(topic, len(self._partitions(record.at.topic)))
        headers = {
            "kafka_dlt-original-topic": record.at.topic,
            "kafka_dlt-original-partition": str(record.at.partition),
            "kafka_dlt-original-offset": str(record.offset),
            "kafka_dlt-exception-message": why,
        }
        return self.append(topic, record.value, key=record.key, partition=record.at.partition, headers=headers)

    def dead_letters(self, topic: str) -> list[Record]:
        """What has been given up of a topic, partition by partition."""
        return [record for records in self._topics.get(topic + DEAD_LETTER_SUFFIX, ()) for record in records]

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Raises KafkaError where there is no such topic."""
        return tuple(TopicPartition(topic, number) for number in range(len(self._partitions(topic))))

    def end(self, at: TopicPartition) -> int:
        """The offset that the next record will have."""
        return len(self._of(at))

    def read(self, at: TopicPartition, offset: int, limit: int) -> list[Record]:
        """At most `limit` records from `offset` on."""
        return self._of(at)[offset : offset + limit]

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """It is called after each record that is appended."""
        self._subscribers.append(subscriber)

    def unsubscribe(self, subscriber: Callable[[], None]) -> None:
        self._subscribers.remove(subscriber)

    def _partitions(self, topic: str) -> list[list[Record]]:
        if topic not in self._topics:
            raise KafkaError(f"topic {topic}: expected one of {', '.join(self._topics) or 'none'}; create it first")
        return self._topics[topic]

    def _of(self, at: TopicPartition) -> list[Record]:
        partitions = self._partitions(at.topic)
        if not 0 <= at.partition < len(partitions):
            raise KafkaError(f"partition {at}: expected one of the {len(partitions)} of its topic")
        return partitions[at.partition]
