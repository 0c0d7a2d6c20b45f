"""A record log with Kafka's consumer groups, in this process: all of Kafka that redelivery depends on.

The names and their meaning are Apache Kafka's (documentation of the consumer and its configuration, 3.x, classic group
protocol). Time is the event loop's; nothing is drawn by chance. It knows no MongoDB.
"""

from harness.drivers.kafka.consumer import Consumer, RebalanceListener
from harness.drivers.kafka.coordinator import Group, Observer, What
from harness.drivers.kafka.errors import CommitFailed, KafkaError, NoOffsetForPartition, RebalanceInProgress
from harness.drivers.kafka.log import Log, Record, TopicPartition
from harness.drivers.kafka.settings import GroupSettings, OffsetReset, Rebalance

__all__ = [
    "CommitFailed",
    "Consumer",
    "Group",
    "GroupSettings",
    "KafkaError",
    "Log",
    "NoOffsetForPartition",
    "Observer",
    "OffsetReset",
    "Rebalance",
    "RebalanceInProgress",
    "RebalanceListener",
    "Record",
    "TopicPartition",
    "What",
]
