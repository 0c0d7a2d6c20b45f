"""Upstream: jstests/sharding/query/change_streams/change_stream_metrics_update_lookup.js

Where a post-image is looked up: at the shard that has it by now, although the document moved after its update; nowhere
is it found once it was deleted; and where it did not move, it is read locally by servers from 9.0 on.

Differs: upstream reads all of that from metrics that came with 9.0 (`changeStreams.updateLookup` of serverStatus); that
part runs from 9.0 on. On older servers each lookup is routed, and is counted in the profiler of the shard that it must
go to. Ported are the cases that move or delete by moveChunk, by `_id` and by another shard key; reshardCollection,
moveCollection, movePrimary, clustered collections and collations are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jstests_port import servers
from jstests_port.assertions import profiled, start_profiler
from jstests_port.change_streams import Collection, WatchMode, assert_next_changes_equal, change_stream, watched
from jstests_port.mongo import Document, Mongo
from jstests_port.post_image_lookups import lookups
from jstests_port.sharding_test import ShardingTest

LOCAL_SINCE = "9.0"
DOCUMENTS: dict[str, Document] = {"_id": {"_id": 0}, "sk": {"_id": 0, "sk": 0}}
"""By shard key; with the collection's document key, which is all there is in it."""


@dataclass(frozen=True)
class Counted:
    """How lookups went, by the metrics of a server from 9.0 on: `primary` is the local one of that kind of stream."""

    primary_found: int
    primary_declined: int
    found: int
    not_found: int


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
@pytest.mark.parametrize("mode", list(WatchMode))
@pytest.mark.parametrize("key", list(DOCUMENTS))
async def test_a_post_image_that_moved_is_found_where_it_is_by_now(
    st: ShardingTest, test_name: str, mode: WatchMode, key: str
) -> None:
    coll, document = await _sharded(st, test_name, key), DOCUMENTS[key]
    on, spec = watched(mode, coll)
    async with change_stream(on, {**spec, "fullDocument": "updateLookup"}, comment="moved") as stream:
        before = await _metrics(st, mode)
        await coll.update_one({"_id": 0}, {"$set": {"v": 1}})
        await st.move_chunk(coll, {key: 0}, st.rs1.name)
        await assert_next_changes_equal(stream, [_update(coll, document, {**document, "v": 1})])
        assert await _since(st, mode, before) in (Counted(0, 1, 1, 0), None)
    await _looked_up_once_at(st, st.shard1, coll, "moved")


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
@pytest.mark.parametrize("mode", list(WatchMode))
@pytest.mark.parametrize("key", list(DOCUMENTS))
async def test_a_post_image_that_moved_and_was_deleted_is_found_nowhere(
    st: ShardingTest, test_name: str, mode: WatchMode, key: str
) -> None:
    coll, document = await _sharded(st, test_name, key), DOCUMENTS[key]
    on, spec = watched(mode, coll)
    async with change_stream(on, {**spec, "fullDocument": "updateLookup"}, comment="deleted") as stream:
        before = await _metrics(st, mode)
        await coll.update_one({"_id": 0}, {"$set": {"v": 1}})
        await st.move_chunk(coll, {key: 0}, st.rs1.name)
        await coll.delete_one({"_id": 0})
        deletion = {"operationType": "delete", "ns": _ns(coll), "documentKey": document}
        await assert_next_changes_equal(stream, [_update(coll, document, None), deletion])
        assert await _since(st, mode, before) in (Counted(0, 1, 0, 1), None)
    await _looked_up_once_at(st, st.shard1, coll, "deleted")


@pytest.mark.needs_server("6.0", "a lookup that a shard routes")
@pytest.mark.parametrize("mode", list(WatchMode))
@pytest.mark.parametrize("key", list(DOCUMENTS))
async def test_a_post_image_that_did_not_move_is_found_at_the_shard_of_its_update(
    st: ShardingTest, test_name: str, mode: WatchMode, key: str
) -> None:
    coll, document = await _sharded(st, test_name, key), DOCUMENTS[key]
    on, spec = watched(mode, coll)
    async with change_stream(on, {**spec, "fullDocument": "updateLookup"}, comment="stayed") as stream:
        before = await _metrics(st, mode)
        await coll.update_one({"_id": 0}, {"$set": {"v": 1}})
        await assert_next_changes_equal(stream, [_update(coll, document, {**document, "v": 1})])
        counted = await _since(st, mode, before)
    if counted is None:
        await _looked_up_once_at(st, st.shard0, coll, "stayed")
    else:
        assert counted == Counted(1, 0, 0, 0)
        assert await profiled(st.shard0[test_name], lookups(coll, "stayed")) == []


async def _sharded(st: ShardingTest, database: str, key: str) -> Collection:
    """One chunk on shard0, one document in it, whose lookups the profilers see."""
    await st.enable_sharding(database, st.rs0.name)
    coll = st.s[database]["test"]
    await st.s.admin.command("shardCollection", coll.full_name, key={key: 1})
    await coll.insert_one(dict(DOCUMENTS[key]))
    await start_profiler(*(shard[database] for shard in (st.shard0, st.shard1)))
    return coll


def _ns(coll: Collection) -> Document:
    return {"db": coll.database.name, "coll": coll.name}


def _update(coll: Collection, key: Document, full: Document | None) -> Document:
    return {
        "operationType": "update",
        "ns": _ns(coll),
        "documentKey": key,
        "updateDescription": {"updatedFields": {"v": 1}, "removedFields": [], "truncatedArrays": []},
        "fullDocument": full,
    }


async def _looked_up_once_at(st: ShardingTest, meant: Mongo, coll: Collection, comment: str) -> None:
    for node in (st.shard0, st.shard1):
        entries = await profiled(node[coll.database.name], lookups(coll, comment, 0))
        assert len(entries) == (node is meant), f"{node} has {entries}"


async def _metrics(st: ShardingTest, mode: WatchMode) -> Counted | None:
    """Of all shards together; None where servers have none."""
    if servers.lacks_version(LOCAL_SINCE, "metrics of update lookups") is not None:
        return None
    primary = "sbe" if mode is WatchMode.COLLECTION else "express"
    totals = [0, 0, 0, 0]
    for shard in (st.shard0, st.shard1, st.shard2):
        engines = (await shard.admin.command("serverStatus"))["metrics"]["changeStreams"]["updateLookup"]
        local, routed = engines.get(primary, {}), engines.get("aggregation", {})
        for place, (engine, name) in enumerate(
            ((local, "found"), (local, "notHandled"), (routed, "found"), (routed, "notFound"))
        ):
            totals[place] += int(engine.get(name, 0))
    return Counted(*totals)


async def _since(st: ShardingTest, mode: WatchMode, before: Counted | None) -> Counted | None:
    after = await _metrics(st, mode)
    if before is None or after is None:
        return None
    return Counted(
        after.primary_found - before.primary_found,
        after.primary_declined - before.primary_declined,
        after.found - before.found,
        after.not_found - before.not_found,
    )
