"""Upstream: jstests/sharding/query/change_streams/change_stream_no_orphans.js

Writes on orphans, documents that a shard still has although it no longer owns them, make no events: neither writes sent
to the shard directly, nor those that the router sends to all shards, which leave orphans alone.

Differs: the transaction through the router needs a mongos and is a test of its own; each case has its own collection,
split and moved in the same way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from pymongo.asynchronous.change_stream import AsyncChangeStream

from jstests_port.assertions import assert_soon
from jstests_port.change_streams import AWAIT_MS, Collection, next_change
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Document, Mongo
from jstests_port.sharding_test import ShardingTest


@dataclass(frozen=True)
class Orphans:
    """`coll` has the ids below 0 on shard0 and the others on shard1, with orphans of these left on shard0."""

    coll: Collection
    stream: AsyncChangeStream[Document]
    shard0: Collection
    shard1: Collection

    async def events(self, *kinds: str) -> None:
        """There are these, and no more."""
        for kind in kinds:
            assert (await next_change(self.stream))["operationType"] == kind
        tokens: list[str] = []

        async def moved_on() -> bool:
            event = await self.stream.try_next()
            assert event is None, f"expected no event, found {event}"
            assert self.stream.resume_token is not None
            tokens.append(self.stream.resume_token["_data"])
            return tokens[-1] > tokens[0]

        await assert_soon(moved_on, "the stream is past what was written")


@asynccontextmanager
async def orphans(st: ShardingTest, database: str) -> AsyncIterator[Orphans]:
    await st.enable_sharding(database, st.rs0.name)
    coll = st.s[database]["foo"]
    async with await configure_fail_point(st.shard0, "suspendRangeDeletion"):
        await st.s.admin.command("shardCollection", coll.full_name, key={"_id": 1})
        names = ("emma", "olivia", "matt", "matt", "john", "robert", "robert", "james", "liam")
        people = [{"_id": id, "name": name, "age": 30 + 5 * id} for id, name in enumerate(names, -2)]
        await coll.insert_many(people)
        await st.s.admin.command("split", coll.full_name, middle={"_id": 0})
        await st.move_chunk(coll, {"_id": 0}, st.rs1.name)
        async with await coll.watch(max_await_time_ms=AWAIT_MS) as stream:
            yield Orphans(coll, stream, _on(st.shard0, coll), _on(st.shard1, coll))
            await coll.drop()
            assert (await next_change(stream))["operationType"] == "drop"


def _on(shard: Mongo, coll: Collection) -> Collection:
    return shard[coll.database.name][coll.name]


async def _age(on: Collection, id: int) -> int | None:
    found = await on.find_one({"_id": id})
    return None if found is None else int(found["age"])


@pytest.mark.needs_server("6.0", "writes on orphans are told from others")
async def test_writes_on_orphans_sent_to_their_shard_take_effect_and_make_no_event(
    st: ShardingTest, test_name: str
) -> None:
    async with orphans(st, test_name) as here:
        await here.shard0.insert_one({"_id": 7, "name": "ken", "age": 65})
        await here.events()
        assert await _age(here.shard0, 7) == 65
        await here.shard0.update_one({"name": "ken"}, {"$set": {"age": 66}})
        await here.events()
        assert await _age(here.shard0, 7) == 66
        await here.shard0.delete_one({"name": "ken"})
        await here.events()
        assert await _age(here.shard0, 7) is None
        await here.shard0.update_many({"name": "matt"}, {"$set": {"age": 31}})
        await here.events()
        assert [await _age(here.shard0, id) for id in (0, 1)] == [31, 31]
        await here.shard0.delete_many({"name": "matt"})
        await here.events()
        assert [await _age(here.shard0, id) for id in (0, 1)] == [None, None]


@pytest.mark.needs_server("6.0", "writes on orphans are told from others")
async def test_writes_sent_to_all_shards_leave_orphans_alone_and_make_one_event_a_document(
    st: ShardingTest, test_name: str
) -> None:
    async with orphans(st, test_name) as here:
        await here.coll.update_many({"name": "john"}, {"$set": {"age": 41}})
        await here.events("update")
        assert [await _age(on, 2) for on in (here.shard0, here.shard1)] == [40, 41]
        await here.coll.delete_many({"name": "john"})
        await here.events("delete")
        assert [await _age(on, 2) for on in (here.shard0, here.shard1)] == [40, None]
        await here.coll.update_many({"name": "robert"}, {"$set": {"age": 46}})
        await here.events("update", "update")
        assert [await _age(here.shard0, id) for id in (3, 4)] == [45, 50]
        assert [await _age(here.shard1, id) for id in (3, 4)] == [46, 46]
        await here.coll.delete_many({"name": "robert"})
        await here.events("delete", "delete")
        assert [await _age(here.shard0, id) for id in (3, 4)] == [45, 50]
        assert [await _age(here.shard1, id) for id in (3, 4)] == [None, None]


@pytest.mark.needs_mongos
async def test_a_transaction_through_the_router_makes_events_of_owned_documents_alone(
    st: ShardingTest, test_name: str
) -> None:
    async with orphans(st, test_name) as here, st.s.start_session() as session:
        async with await session.start_transaction():
            await here.coll.update_many({"name": "olivia"}, {"$set": {"age": 26}}, session=session)
            await here.coll.update_many({"name": "james"}, {"$set": {"age": 56}}, session=session)
        await here.events("update", "update")
        assert await _age(here.shard0, -1) == 26
        assert [await _age(on, 5) for on in (here.shard0, here.shard1)] == [55, 56]
        async with await session.start_transaction():
            await here.coll.delete_many({"name": "olivia"}, session=session)
            await here.coll.delete_many({"name": "james"}, session=session)
        await here.events("delete", "delete")
        assert await _age(here.shard0, -1) is None
        assert [await _age(on, 5) for on in (here.shard0, here.shard1)] == [55, None]


@pytest.mark.needs_server("6.0", "writes on orphans are told from others")
async def test_a_transaction_sent_to_the_shard_makes_events_of_owned_documents_alone(
    st: ShardingTest, test_name: str
) -> None:
    async with orphans(st, test_name) as here, st.shard0.start_session() as session:
        async with await session.start_transaction():
            await here.shard0.update_many({"name": "emma"}, {"$set": {"age": 21}}, session=session)
            await here.shard0.update_many({"name": "liam"}, {"$set": {"age": 61}}, session=session)
        await here.events("update")
        assert [await _age(here.shard0, id) for id in (-2, 6)] == [21, 61]
        async with await session.start_transaction():
            await here.shard0.delete_many({"name": "emma"}, session=session)
            await here.shard0.delete_many({"name": "liam"}, session=session)
        await here.events("delete")
        assert [await _age(here.shard0, id) for id in (-2, 6)] == [None, None]
