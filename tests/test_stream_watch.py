"""Anybody's change streams: how each is called, which gets no answer, and for whom it waits."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pymongo.read_preferences import Secondary

import mongofault
from clusters.local import OwnCluster
from harness import stage
from harness.drivers.writers import Document
from harness.stream_watch import named
from harness.watchers.currentop import GetMore


def getmore(comment: Any, source: Literal["currentOp", "router"] = "currentOp", member: str = "shard0-1") -> GetMore:
    return GetMore(member, 7, 3.0, 1000, comment, None, source, 0)


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("orders", "orders"),
        ({"run": "a", "stream": "s1"}, "s1"),
        ({"app": "shop"}, "{'app': 'shop'}"),
        (5, "5"),
        (None, "opid 7 on shard0-1"),
    ],
)
def test_a_stream_is_called_as_its_comment_says_or_by_its_operation(comment: Any, name: str) -> None:
    assert [one.stream for one in named([getmore(comment)])] == [name]


def test_the_routers_word_on_a_stream_without_a_comment_counts_where_its_member_does_not_answer() -> None:
    heard, unheard = getmore(None, "router"), getmore(None, "router", "shard0-2")
    assert [one.member for one in named([getmore(None), heard, unheard]) if one.source == "router"] == ["shard0-2"]


@pytest.mark.live
@pytest.mark.slow
async def test_a_stream_waits_for_the_member_that_owes_it_a_post_image_and_goes_on_when_that_does(
    sharded: OwnCluster,
) -> None:
    ground = mongofault.Ground(sharded, sharded.ledger, sharded.guardian)
    async with sharded.client(w="majority") as client, mongofault.stream_watch(ground, "watched.orders") as watch:
        document = Document("a", "shard0", {"_id": "a", "region": 0})
        await stage.make_namespace(sharded, "watched.orders", [document])
        # Streams and lookups go to the members with the tag; the streams stay where they are when it moves.
        before = {"shard0-1": {"use": "a"}, "shard0-2": {}, "shard1-1": {"use": "a"}}
        moved = {"shard0-1": {}, "shard0-2": {"use": "a"}}
        await stage.set_tags(sharded, before)
        tagged = client.watched.get_collection("orders", read_preference=Secondary(tag_sets=[{"use": "a"}]))
        stream = await tagged.watch(full_document="updateLookup", comment="orders")

        async def read() -> None:
            while True:
                await stream.try_next()

        async def write() -> None:
            while True:
                await client.watched.orders.update_one(document.filter, {"$inc": {"seq": 1}})

        load = [asyncio.create_task(read()), asyncio.create_task(write())]
        try:
            await watch.until_watched("orders", within=60)
            await stage.set_tags(sharded, moved)
            await stage.tags_seen(sharded, sharded.members["shard0-1"], moved)
            async with mongofault.freeze(ground.select("shard0-2")):
                (silent,) = await watch.until_silent(within=60)
                assert (silent.stream, silent.member, silent.waits_for) == ("orders", "shard0-1", "shard0-2")
            await watch.until_none_silent(within=60)
        finally:
            for one in load:
                one.cancel()
            await asyncio.wait(load)
            await stage.set_tags(sharded, {name: {} for name in before})
        await stream.close()
        await client.drop_database("watched")
    await mongofault.recovered(ground)
