"""Which member of a group gets which partitions: pure functions, one for each rebalance protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from harness.drivers.kafka.log import TopicPartition

Assignment: TypeAlias = dict[str, tuple[TopicPartition, ...]]


def in_ranges(members: Sequence[str], partitions: Sequence[TopicPartition]) -> Assignment:
    """Kafka's RangeAssignor, of one topic: neighbours together, the first members take what is left over.

    Whoever joins or leaves moves most of the partitions.
    """
    ordered, shares = sorted(partitions), iter(_shares(len(partitions), len(members)))
    taken = 0
    assignment: Assignment = {}
    for member in sorted(members):
        share = next(shares)
        assignment[member] = tuple(ordered[taken : taken + share])
        taken += share
    return assignment


def sticky(owned: Mapping[str, Sequence[TopicPartition]], partitions: Sequence[TopicPartition]) -> Assignment:
    """Kafka's sticky assignor: as even as ranges, and of all such assignments one that moves the fewest partitions.

    `owned` has every member, with what it says it holds. A partition that two say they hold stays with the first.
    """
    free = sorted(set(partitions))
    kept: dict[str, list[TopicPartition]] = {member: [] for member in owned}
    for member in sorted(owned):
        for one in sorted(owned[member]):
            if one in free:
                free.remove(one)
                kept[member].append(one)
    # Who holds most keeps the larger shares: that moves least.
    by_holding = sorted(owned, key=lambda member: (-len(kept[member]), member))
    shares = dict(zip(by_holding, _shares(len(set(partitions)), len(owned)), strict=True))
    for member in by_holding:
        free += kept[member][shares[member] :]
        del kept[member][shares[member] :]
    free.sort()
    for member in by_holding:
        lacks = shares[member] - len(kept[member])
        kept[member] += free[:lacks]
        del free[:lacks]
    return {member: tuple(sorted(kept[member])) for member in sorted(owned)}


def cooperative(owned: Mapping[str, Sequence[TopicPartition]], partitions: Sequence[TopicPartition]) -> Assignment:
    """One step towards `sticky`: what somebody else still holds is not given yet.

    Its holder learns by its assignment that it must let go of it, and joins again; the next step gives it away
    (KIP-429, incremental cooperative rebalancing).
    """
    holder = {one: member for member in sorted(owned, reverse=True) for one in owned[member]}
    return {
        member: tuple(one for one in target if holder.get(one, member) == member)
        for member, target in sticky(owned, partitions).items()
    }


def _shares(total: int, members: int) -> list[int]:
    """`total` in as many parts as even as can be, the larger ones first."""
    return [total // members + (number < total % members) for number in range(members)] if members else []
