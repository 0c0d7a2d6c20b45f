"""What a consumer is told that goes wrong, under the names Kafka gives it (less the `Exception`)."""

from __future__ import annotations


class KafkaError(Exception):
    """One line: what was expected of the group or the log, and what was found."""


class CommitFailed(KafkaError):
    """The member is no longer in the group: its partitions belong to others, who get the records again."""


class RebalanceInProgress(KafkaError):
    """The member has joined a rebalance that is not over: `poll` ends it, then the commit can be tried again."""


class NoOffsetForPartition(KafkaError):
    """Nothing was committed for a partition, and `auto.offset.reset` is `none`."""
