"""The coordinator of a consumer group: who is a member, who has which partitions, which offsets are committed.

It follows the classic group protocol of Kafka's brokers (JoinGroup, Heartbeat, LeaveGroup, OffsetCommit), with the
assignment made here instead of by the group's leader. It knows no records and nothing of what consumers do with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.drivers.kafka.assignors import cooperative, in_ranges
from harness.drivers.kafka.errors import CommitFailed
from harness.drivers.kafka.log import Log, TopicPartition
from harness.drivers.kafka.settings import GroupSettings

What = Literal["joined", "assigned", "revoked", "lost", "left", "expelled"]
Observer: TypeAlias = Callable[[What, str, Sequence[TopicPartition], str], None]
"""Told of each change at once: what, of which consumer, which partitions, and why."""

Heard = Literal["stable", "rebalance in progress", "unknown member"]


def nobody(what: What, consumer: str, partitions: Sequence[TopicPartition], why: str) -> None:
    """The observer of a group that nobody observes."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What a member learns when a rebalance is over."""

    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class _Member:
    consumer: str
    holds: tuple[TopicPartition, ...] = ()
    joining: asyncio.Future[Joined] | None = None
    session: asyncio.TimerHandle | None = None


class Group:
    """One group on one topic. Called by its consumers, in their loop; nothing here waits."""

    def __init__(self, log: Log, topic: str, settings: GroupSettings, observe: Observer = nobody) -> None:
        self.log = log
        self.topic = topic
        self.settings = settings
        self.observe = observe
        self.generation = 0
        self.rebalancing = False
        self.committed: dict[TopicPartition, int] = {}
        self._members: dict[str, _Member] = {}
        self._ids = 0
        self._initial: asyncio.TimerHandle | None = None

    @property
    def assignment(self) -> dict[str, tuple[TopicPartition, ...]]:
        """By consumer, as the coordinator has it: whoever was expelled is not in it, whatever it believes."""
        return {member.consumer: member.holds for member in self._members.values()}

    def join(
        self, consumer: str, member: str | None, owned: Sequence[TopicPartition]
    ) -> tuple[str, asyncio.Future[Joined]]:
        """Join, or join again, saying what one still holds. The future is done when all members have joined.

        `member` is the id from before, None for a new one. An id that is unknown by now gets a new one as well.
        """
        loop = asyncio.get_running_loop()
        if member is None or member not in self._members:
            self._ids += 1
            member = f"{consumer}-{self._ids}"
            if not self._members and self.settings.group_initial_rebalance_delay_ms:
                self._initial = loop.call_later(self.settings.group_initial_rebalance_delay_ms / 1000, self._waited)
            self._members[member] = _Member(consumer)
            self.observe("joined", consumer, (), "")
        one = self._members[member]
        one.holds, one.joining = tuple(owned), loop.create_future()
        # A member that waits for the others has no session to lose: the broker holds its request.
        _cancel(one.session)
        joining = one.joining
        self.rebalancing = True
        self._complete()
        return member, joining

    def heartbeat(self, member: str) -> Heard:
        if member not in self._members:
            return "unknown member"
        one = self._members[member]
        if one.joining is None:
            self._renew(member, one)
        return "rebalance in progress" if self.rebalancing else "stable"

    def leave(self, member: str, what: Literal["left", "expelled"], why: str = "") -> None:
        """LeaveGroup: its partitions go to the others. Nothing happens where it is no member any more."""
        one = self._members.pop(member, None)
        if one is None:
            return
        _cancel(one.session)
        if one.joining is not None:
            one.joining.cancel()
        self.observe(what, one.consumer, one.holds, why)
        if self._members:
            self.rebalancing = True
            self._complete()
        else:
            _cancel(self._initial)
            self._initial, self.rebalancing = None, False

    def commit(self, member: str | None, generation: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises CommitFailed for who is no member of this generation. Whose partitions they are is not asked."""
        if member not in self._members or generation != self.generation:
            raise CommitFailed(
                "the group has rebalanced and given the partitions to another member: the time between two polls was"
                " longer than max.poll.interval.ms, or heartbeats stayed away for session.timeout.ms"
            )
        self.committed.update(offsets)

    def _waited(self) -> None:
        self._initial = None
        self._complete()

    def _complete(self) -> None:
        if not self.rebalancing or self._initial is not None:
            return
        if any(member.joining is None for member in self._members.values()):
            return
        self.rebalancing = False
        self.generation += 1
        partitions = self.log.partitions(self.topic)
        if self.settings.rebalance == "eager":
            given = in_ranges(list(self._members), partitions)
        else:
            given = cooperative({name: member.holds for name, member in self._members.items()}, partitions)
        for name, member in self._members.items():
            member.holds = given[name]
            if member.joining is not None:
                member.joining.set_result(Joined(self.generation, given[name]))
            member.joining = None
            self._renew(name, member)

    def _renew(self, name: str, member: _Member) -> None:
        _cancel(member.session)
        member.session = asyncio.get_running_loop().call_later(
            self.settings.session_timeout_ms / 1000, self.leave, name, "expelled", "session.timeout.ms"
        )


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
