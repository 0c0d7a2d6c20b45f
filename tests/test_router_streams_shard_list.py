"""How far the list of shards is known to be whole, and that it is read once for all who wait. No cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bson.timestamp import Timestamp

from clusters.router.shard_list import ShardList


class Config:
    """What the config servers would answer, and when."""

    def __init__(self) -> None:
        self.time = 10
        self.shards: dict[str, str] = {"a": "a"}
        self.reads = 0
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None

    async def read(self) -> Mapping[str, str]:
        self.reads += 1
        self.asked.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return dict(self.shards)

    def cluster_time(self) -> Mapping[str, Any]:
        return {"clusterTime": Timestamp(self.time, 1)}

    def list(self) -> ShardList:
        return ShardList(self.read, self.cluster_time)


async def test_it_is_known_up_to_the_time_that_was_told_before_reading() -> None:
    config = Config()
    shards = config.list()
    assert shards.known(Timestamp(10, 1)) is None
    await shards.now()
    assert shards.known(Timestamp(10, 1)) == {"a": "a"}
    assert shards.known(Timestamp(10, 2)) is None


async def test_it_is_read_again_only_for_a_later_time() -> None:
    config = Config()
    shards = config.list()
    await shards.now()
    config.time, config.shards["b"] = 20, "b"
    assert await shards.ask(Timestamp(9, 1)) == {"a": "a"}
    assert config.reads == 1
    assert await shards.ask(Timestamp(15, 1)) == {"a": "a", "b": "b"}
    assert await shards.ask(Timestamp(20, 1)) == {"a": "a", "b": "b"}
    assert config.reads == 2


async def test_one_reading_serves_all_who_wait_unless_it_began_too_early() -> None:
    config = Config()
    shards = config.list()
    config.gate.clear()
    first = [asyncio.create_task(shards.ask(Timestamp(10, 1))) for _ in range(50)]
    await config.asked.wait()
    config.time = 30
    later = [asyncio.create_task(shards.ask(Timestamp(30, 1))) for _ in range(50)]
    await asyncio.sleep(0)
    config.gate.set()
    assert await asyncio.gather(*first, *later) == [{"a": "a"}] * 100
    assert config.reads == 2


async def test_what_cannot_be_read_is_not_known_and_is_asked_for_again() -> None:
    config = Config()
    shards = config.list()
    config.failure = ConnectionError("no config server")
    assert await shards.ask(Timestamp(10, 1)) is None
    config.failure = None
    assert await shards.ask(Timestamp(10, 1)) == {"a": "a"}


async def test_one_who_stops_waiting_leaves_the_reading_to_the_others() -> None:
    config = Config()
    shards = config.list()
    config.gate.clear()
    impatient, patient = (asyncio.create_task(shards.ask(Timestamp(10, 1))) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    config.gate.set()
    assert await patient == {"a": "a"}
    assert config.reads == 1
