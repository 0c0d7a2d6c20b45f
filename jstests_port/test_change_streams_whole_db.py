"""Upstream: jstests/sharding/query/change_streams/change_streams_whole_db.js

One stream of a database has the events of its collections in order, unsharded, sharded by one field and by two, each
with its own document key.

Differs: the cluster has a third shard, which owns nothing. Before 6.0 an insert's entry in the oplog does not say how
its collection was sharded: of one that was dropped since, the document key is the `_id` alone (measured on 5.0.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from bson.min_key import MinKey

from jstests_port import servers
from jstests_port.change_streams import Collection, Stream, assert_next_changes_equal, assert_no_change, change_stream
from jstests_port.mongo import Document
from jstests_port.sharding_test import ShardingTest


async def test_the_stream_of_a_database_has_the_events_of_all_its_collections_in_order(
    st: ShardingTest, test_name: str
) -> None:
    database = st.s[test_name]
    await st.enable_sharding(test_name, st.rs0.name)
    plain, on_x, compound = database["plain"], database["sharded_on_x"], database["sharded_compound"]
    async with change_stream(database) as stream:
        await assert_no_change(stream)
        await plain.insert_one({"_id": 0})
        await assert_next_changes_equal(stream, [_insert(plain, {"_id": 0})])

        await st.shard_coll(on_x, {"x": 1}, {"x": 0}, {"x": 1})
        await _written_and_seen(stream, [(on_x, {"_id": 0, "x": -1}), (on_x, {"_id": 1, "x": 1})])
        await _written_and_seen(stream, [(on_x, {"_id": 2, "x": 2}), (plain, {"_id": 1})])

        middle = {"y": 1, "x": MinKey()}
        await st.shard_coll(compound, {"y": 1, "x": 1}, middle, middle)
        await _written_and_seen(
            stream, [(compound, {"_id": 0, "y": -1, "x": 0}), (compound, {"_id": 1, "y": 1, "x": 0})]
        )
        changes = await _written_and_seen(
            stream,
            [(on_x, {"_id": 3, "x": 3}), (plain, {"_id": 3}), (compound, {"_id": 2, "x": 0, "y": -2})],
        )
    token = changes[0]["_id"]
    await on_x.insert_one({"_id": 4, "x": 4})
    await on_x.drop()
    only = [{"$match": {"ns.coll": on_x.name}}]
    async with change_stream(database, {"resumeAfter": token}, only) as stream:
        key = {"_id": 4, "x": 4} if servers.numbers() >= (6,) else {"_id": 4}
        await assert_next_changes_equal(stream, [{**_insert(on_x, {"_id": 4, "x": 4}), "documentKey": key}])


def _insert(coll: Collection, document: Document) -> Document:
    """The event of it; all fields are part of its key."""
    return {
        "operationType": "insert",
        "ns": {"db": coll.database.name, "coll": coll.name},
        "documentKey": document,
        "fullDocument": document,
    }


async def _written_and_seen(stream: Stream, writes: Sequence[tuple[Collection, Document]]) -> list[Document]:
    for coll, document in writes:
        await coll.insert_one(dict(document))
    return await assert_next_changes_equal(stream, [_insert(coll, document) for coll, document in writes])
