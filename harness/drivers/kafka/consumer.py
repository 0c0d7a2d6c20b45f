"""A consumer of a group: poll, seek, pause, commit; heartbeats and the poll interval run in the background.

After Kafka's own consumer with the classic protocol. One that is expelled is not stopped: it learns of it when it polls
or commits, and writes on until then. It does not know what its caller does with the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from harness.drivers.kafka.coordinator import Group, Joined, What
from harness.drivers.kafka.errors import CommitFailed, KafkaError, NoOffsetForPartition, RebalanceInProgress
from harness.drivers.kafka.log import Record, TopicPartition


class RebalanceListener(Protocol):
    """Called within `poll` and `close`, as Kafka's ConsumerRebalanceListener is."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None: ...

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """They are still this consumer's: what was processed of them can be committed now."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """They are others' already: nothing of them can be committed."""


class Consumer:
    """A member of the group from its first `poll` on, until `close` or `die`."""

    def __init__(self, group: Group, name: str, listener: RebalanceListener | None = None) -> None:
        self.name = name
        self._group = group
        self._settings = group.settings
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._member: str | None = None
        self._generation = -1
        self._joining: asyncio.Future[Joined] | None = None
        self._must_join = True
        self._fenced = False
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._served: TopicPartition | None = None
        self._heartbeats: asyncio.TimerHandle | None = None
        self._interval: asyncio.TimerHandle | None = None
        group.log.subscribe(self._news.set)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """What it believes is its own: after it was expelled too, until it polls."""
        return tuple(sorted(self._positions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(self._paused)

    async def poll(self, timeout: float) -> list[Record]:
        """At most `max.poll.records` records, as soon as there is one; none after `timeout` seconds.

        Takes part in the rebalances of the group. Raises NoOffsetForPartition.
        """
        deadline = self._loop.time() + timeout
        self._cancel_interval()
        try:
            # A fetch is a round trip: others have their turn also where records are always at hand.
            await asyncio.sleep(0)
            while True:
                self._news.clear()
                self._rebalance()
                if records := self._fetch():
                    return records
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._news.wait()
                except TimeoutError:
                    return []
        finally:
            self._interval = self._loop.call_later(self._settings.max_poll_interval_ms / 1000, self._overdue)

    def position(self, at: TopicPartition) -> int:
        """The offset of the next record. Raises KafkaError for a partition that is not assigned."""
        self._check([at])
        return self._positions[at]

    def seek(self, at: TopicPartition, offset: int) -> None:
        """The next poll reads from there. Raises KafkaError for a partition that is not assigned."""
        self._check([at])
        self._positions[at] = offset
        self._news.set()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls give no records of them until `resume`. Raises KafkaError for one that is not assigned."""
        self._paused.update(self._check(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        self._news.set()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """`commitSync`: the offsets of the next records to be read. Raises CommitFailed, RebalanceInProgress."""
        if self._joining is not None and not self._fenced:
            raise RebalanceInProgress("the consumer is undergoing a rebalance: poll until it is over, and commit again")
        try:
            self._group.commit(self._member, self._generation, offsets)
        except CommitFailed:
            self._fenced = self._fenced or self._member is not None
            raise

    def close(self) -> None:
        """Leave the group; the others get the partitions at once."""
        if not self._fenced:
            self._let_go("revoked", self.assignment)
        if self._member is not None and not self._fenced:
            self._group.leave(self._member, "left")
        self.die()

    def die(self) -> None:
        """Gone without a word, as after SIGKILL: the others get the partitions after `session.timeout.ms`."""
        self._cancel_interval()
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        self._group.log.unsubscribe(self._news.set)

    def _rebalance(self) -> None:
        if self._fenced:
            self._let_go("lost", self.assignment)
            self._member, self._joining, self._fenced, self._must_join = None, None, False, True
        while True:
            if self._joining is None:
                if not self._must_join:
                    return
                self._join()
            elif self._joining.done():
                self._take(self._joining.result())
            else:
                return

    def _join(self) -> None:
        if self._settings.rebalance == "eager":
            self._let_go("revoked", self.assignment)
        self._must_join = False
        self._member, self._joining = self._group.join(self.name, self._member, self.assignment)
        self._joining.add_done_callback(lambda _done: self._news.set())
        self._beat()

    def _take(self, joined: Joined) -> None:
        self._joining, self._generation = None, joined.generation
        revoked = [one for one in self.assignment if one not in joined.partitions]
        if revoked:
            self._let_go("revoked", revoked)
            # What it has let go of is given to others by one more rebalance.
            self._must_join = True
        added = [one for one in joined.partitions if one not in self._positions]
        for one in added:
            self._positions[one] = self._start(one)
        self._group.observe("assigned", self.name, added, "")
        if self._listener is not None:
            self._listener.on_partitions_assigned(added)

    def _let_go(self, what: What, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        if self._listener is not None:
            if what == "lost":
                self._listener.on_partitions_lost(partitions)
            else:
                self._listener.on_partitions_revoked(partitions)
        self._group.observe(what, self.name, partitions, "")
        for one in partitions:
            del self._positions[one]
        self._paused.difference_update(partitions)

    def _start(self, at: TopicPartition) -> int:
        committed = self._group.committed.get(at)
        if committed is not None:
            return committed
        if self._settings.auto_offset_reset == "none":
            raise NoOffsetForPartition(f"{at}: nothing is committed, and auto.offset.reset is none")
        return 0 if self._settings.auto_offset_reset == "earliest" else self._group.log.end(at)

    def _fetch(self) -> list[Record]:
        """One partition after the other, beginning behind the one that came last."""
        order = [one for one in self.assignment if one not in self._paused]
        if self._served is not None:
            served = self._served
            order = [one for one in order if one > served] + [one for one in order if one <= served]
        records: list[Record] = []
        for one in order:
            found = self._group.log.read(one, self._positions[one], self._settings.max_poll_records - len(records))
            if found:
                records += found
                self._positions[one] = found[-1].offset + 1
                self._served = one
        return records

    def _check(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        asked = list(partitions)
        for one in asked:
            if one not in self._positions:
                raise KafkaError(f"no current assignment for partition {one}: assigned are {self.assignment or 'none'}")
        return asked

    def _beat(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        self._heartbeats = self._loop.call_later(self._settings.heartbeat_interval_ms / 1000, self._heartbeat)

    def _heartbeat(self) -> None:
        # Not a task: late timers run in the order of their times, so a loop that was held up loses no session.
        if self._member is None or self._fenced:
            return
        heard = self._group.heartbeat(self._member)
        if heard == "unknown member":
            self._fenced = True
        elif heard == "rebalance in progress" and self._joining is None:
            self._must_join = True
        self._news.set()
        self._beat()

    def _overdue(self) -> None:
        if self._member is None or self._fenced:
            return
        self._fenced = True
        self._group.leave(self._member, "expelled", "max.poll.interval.ms")

    def _cancel_interval(self) -> None:
        if self._interval is not None:
            self._interval.cancel()
